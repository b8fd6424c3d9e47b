using System;

namespace Greenroom
{
    /// <summary>The base of all errors of this library.</summary>
    public class GreenroomException : Exception
    {
        /// <summary>Say what went wrong.</summary>
        public GreenroomException(string message, Exception cause = null) : base(message, cause) { }

        /// <summary>Return a message with what a developer can do about it.</summary>
        internal static string Hinted(string message, string hint)
        {
            return hint == null ? message : message + " (" + hint + ")";
        }
    }

    /// <summary>The server refused a call, and nothing has changed. A 400 is of this class itself.</summary>
    public class ApiException : GreenroomException
    {
        /// <summary>The HTTP status.</summary>
        public readonly int Status;
        /// <summary>The server's text, one of those that the API lists.</summary>
        public readonly string Error;
        /// <summary>A name for the text, one of RefusalCode; null for a text that is not known here.</summary>
        public readonly string Code;
        /// <summary>What a developer can do about it; null where the text says it. The message has it, too.</summary>
        public readonly string Hint;

        internal ApiException(int status, JsonObject answer)
            : base(Hinted(status + ": " + answer.GetString("error"), answer.GetString("hint")))
        {
            Status = status;
            Error = answer.GetString("error");
            Code = RefusalCode.Find(status, Error);
            Hint = answer.GetString("hint");
        }
    }

    /// <summary>A key or token is missing, wrong, or has been replaced: sign in again.</summary>
    public sealed class UnauthorizedException : ApiException
    {
        internal UnauthorizedException(int status, JsonObject answer) : base(status, answer) { }
    }

    /// <summary>The player is banned.</summary>
    public sealed class BannedException : ApiException
    {
        /// <summary>For how long and why; null where the game's publisher has banned the player.</summary>
        public readonly BanInfo BanInfo;

        internal BannedException(int status, JsonObject answer) : base(status, answer)
        {
            BanInfo = BanInfo.Read(answer.GetObject("ban_info"));
        }
    }

    /// <summary>There is nothing by this id, or no longer.</summary>
    public sealed class NotFoundException : ApiException
    {
        internal NotFoundException(int status, JsonObject answer) : base(status, answer) { }
    }

    /// <summary>There were too many calls, and the allowed retries are used up.</summary>
    public sealed class RateLimitedException : ApiException
    {
        /// <summary>How long to wait before the next try.</summary>
        public readonly TimeSpan RetryAfter;

        internal RateLimitedException(int status, JsonObject answer, TimeSpan retryAfter) : base(status, answer)
        {
            RetryAfter = retryAfter;
        }
    }

    /// <summary>The server failed. The call may still have happened: read before you repeat it.</summary>
    public sealed class ServerException : ApiException
    {
        internal ServerException(int status, JsonObject answer) : base(status, answer) { }
    }

    /// <summary>The answer is not one of this API's. Check the address.</summary>
    public sealed class UnexpectedAnswerException : GreenroomException
    {
        internal UnexpectedAnswerException(string message, Exception cause = null) : base(message, cause) { }
    }

    /// <summary>There was no answer, or not in time.</summary>
    public sealed class ConnectionFailedException : GreenroomException
    {
        /// <summary>Whether the call may have reached the server, and may have happened.</summary>
        public readonly bool WasSent;

        internal ConnectionFailedException(string message, bool wasSent, Exception cause = null)
            : base(message, cause)
        {
            WasSent = wasSent;
        }
    }
}
