using System;

namespace Greenroom
{
    /// <summary>How a channel keeps itself open.</summary>
    public sealed class ChannelOptions
    {
        /// <summary>For how long a lost connection is tried again before the channel is over.</summary>
        public TimeSpan ReconnectTimeMax = TimeSpan.FromSeconds(60);
        /// <summary>How often the client says that it is there.</summary>
        public TimeSpan HeartbeatInterval = TimeSpan.FromSeconds(20);
        /// <summary>How long to wait for the answer to that. Beyond it the connection counts as lost.</summary>
        public TimeSpan HeartbeatAnswerTimeMax = TimeSpan.FromSeconds(15);
    }
}
