using System;
using System.Net.Http;

namespace Greenroom
{
    /// <summary>How calls are made, and how often they are repeated.</summary>
    public sealed class CallerOptions
    {
        /// <summary>How long one attempt may take.</summary>
        public TimeSpan AnswerTimeMax = TimeSpan.FromSeconds(15);
        /// <summary>Attempts, the first included; 1 never repeats.</summary>
        public int AttemptsMax = 5;
        /// <summary>The time from the first attempt to the beginning of the last.</summary>
        public TimeSpan RepeatTimeMax = TimeSpan.FromSeconds(30);
        /// <summary>The longest pause after the first failure. Each further failure doubles it.</summary>
        public TimeSpan Backoff = TimeSpan.FromSeconds(0.1);
        /// <summary>The longest pause after any failure. A pause that the server asks for is not cut.</summary>
        public TimeSpan BackoffMax = TimeSpan.FromSeconds(5);
        /// <summary>What carries the requests; null for the platform's own. It is not disposed.</summary>
        public HttpMessageHandler Handler;
    }
}
