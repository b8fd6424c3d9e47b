using System;

namespace Greenroom
{
    /// <summary>Counts of the client's end of a fast lane.</summary>
    public sealed class FastLaneStatistics
    {
        /// <summary>Packets sent.</summary>
        public long PacketsSent { get; internal set; }
        /// <summary>Genuine packets that came for the first time.</summary>
        public long PacketsReceived { get; internal set; }
        /// <summary>Packets that the server sent and that have not come; late ones come off again.</summary>
        public long PacketsLost { get; internal set; }
        /// <summary>Packets that were not genuine, had come before, or made no sense.</summary>
        public long PacketsDropped { get; internal set; }
        /// <summary>Messages that came after a newer one of their stream.</summary>
        public long MessagesOutdated { get; internal set; }
        /// <summary>How long the last PING took there and back; null before the first.</summary>
        public TimeSpan? RoundTrip { get; internal set; }
    }
}
