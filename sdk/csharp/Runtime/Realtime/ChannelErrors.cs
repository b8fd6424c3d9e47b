using System;

namespace Greenroom
{
    /// <summary>The server did not take an action, and nothing has changed.</summary>
    public sealed class ActionRefusedException : GreenroomException
    {
        /// <summary>After how long to try again; null where that would change nothing.</summary>
        public readonly TimeSpan? RetryAfter;

        internal ActionRefusedException(Complaint complaint) : base(complaint.Text)
        {
            RetryAfter = complaint.RetryAfter;
        }
    }

    /// <summary>An action was settled, and has failed: by the game's rules, or because its target left.</summary>
    public sealed class ActionFailedException : GreenroomException
    {
        /// <summary>The whole result; its ResponseDataJson has the game's reason.</summary>
        public readonly ResultEntry Result;

        internal ActionFailedException(ResultEntry result)
            : base(result.ActionType + " has failed: " + result.ResponseDataJson)
        {
            Result = result;
        }
    }

    /// <summary>No result came: the action may have happened, or happen yet. See the results of the room.</summary>
    public sealed class ActionLostException : GreenroomException
    {
        internal ActionLostException(string message) : base(message) { }
    }

    /// <summary>More waits to be sent than a channel keeps. Send less, or wait for the connection.</summary>
    public sealed class OutboxFullException : GreenroomException
    {
        internal OutboxFullException(string message) : base(message) { }
    }

    /// <summary>A channel is over.</summary>
    public class ChannelClosedException : GreenroomException
    {
        /// <summary>The code of the close frame; 1006 without one.</summary>
        public readonly int Code;
        /// <summary>The text of the close frame, or what else ended it.</summary>
        public readonly string Reason;
        /// <summary>What a developer can do about it, where the server has said that; null otherwise.</summary>
        public string Hint { get; internal set; }
        /// <summary>What went wrong, and what to do if that is known.</summary>
        public override string Message { get { return Hinted(base.Message, Hint); } }

        internal ChannelClosedException(int code, string reason) : base(code + ": " + reason)
        {
            Code = code;
            Reason = reason;
        }

        /// <summary>Return the error for a close frame; after ChannelLostException one may connect again.</summary>
        internal static ChannelClosedException Of(int code, string reason)
        {
            if (code == 1008) return new TokenRefusedException(code, reason);
            if (code == 1009) return new MessageTooBigException(code, reason);
            switch (reason)
            {
                case "Connection replaced": return new ReplacedException(code, reason);
                case "Room cleanup": return new RoomEndedException(code, reason);
                case "Player disconnect": return new SeatLostException(code, reason);
                default: return new ChannelLostException(code, reason);
            }
        }
    }

    /// <summary>A new token is not good: the seat is gone, or this is another server.</summary>
    public sealed class TokenRefusedException : ChannelClosedException
    {
        internal TokenRefusedException(int code, string reason) : base(code, reason) { }
    }

    /// <summary>The same player has connected from elsewhere.</summary>
    public sealed class ReplacedException : ChannelClosedException
    {
        internal ReplacedException(int code, string reason) : base(code, reason) { }
    }

    /// <summary>The room is over.</summary>
    public sealed class RoomEndedException : ChannelClosedException
    {
        internal RoomEndedException(int code, string reason) : base(code, reason) { }
    }

    /// <summary>The player has left the room, or was kicked or banned.</summary>
    public sealed class SeatLostException : ChannelClosedException
    {
        internal SeatLostException(int code, string reason) : base(code, reason) { }
    }

    /// <summary>A message of ours was larger than the server takes: send less at once.</summary>
    public sealed class MessageTooBigException : ChannelClosedException
    {
        internal MessageTooBigException(int code, string reason) : base(code, reason) { }
    }

    /// <summary>The connection was cut, and could not be opened again in the time allowed.</summary>
    public sealed class ChannelLostException : ChannelClosedException
    {
        internal ChannelLostException(int code, string reason) : base(code, reason) { }
    }
}
