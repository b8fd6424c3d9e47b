using System;

namespace Greenroom
{
    /// <summary>
    /// A kind of message with a class for its data. In Unity, give it JsonUtility's functions:
    /// new MessageType&lt;Move&gt;("move", JsonUtility.ToJson, JsonUtility.FromJson&lt;Move&gt;).
    /// </summary>
    public sealed class MessageType<T>
    {
        internal readonly string Command;
        internal readonly Func<T, string> Write;
        internal readonly Func<string, T> Read;

        /// <summary>Define a kind of message.</summary>
        /// <param name="command">The word by which the game knows it.</param>
        /// <param name="write">Returns the data as JSON.</param>
        /// <param name="read">Returns what JSON says.</param>
        public MessageType(string command, Func<T, string> write, Func<string, T> read)
        {
            Command = command;
            Write = write;
            Read = read;
        }
    }

    /// <summary>A kind of action, with a class for what it asks and one for what is answered.</summary>
    public sealed class ActionType<TRequest, TResponse>
    {
        internal readonly string Name;
        internal readonly Func<TRequest, string> Write;
        internal readonly Func<string, TResponse> Read;

        /// <summary>Define a kind of action.</summary>
        /// <param name="name">The word by which the game knows it.</param>
        /// <param name="write">Returns what is asked as a JSON object.</param>
        /// <param name="read">Returns what the JSON of an answer says.</param>
        public ActionType(string name, Func<TRequest, string> write, Func<string, TResponse> read)
        {
            Name = name;
            Write = write;
            Read = read;
        }
    }
}
