namespace Greenroom
{
    public sealed partial class ResultEntry
    {
        /// <summary>Whether the room's behaviour has answered, and no member.</summary>
        public bool IsServer { get { return Sender != null && Sender.IsServer; } }
    }

    public sealed partial class TokenReply
    {
        /// <summary>Whether all is there that it takes to connect.</summary>
        internal bool IsSensible
        {
            get
            {
                return Token != null && PlayerInfo != null && PlayerInfo.RoomId != null && RealtimeServer != null
                    && RealtimeServer.Host != null && RealtimeServer.Protocol != null && RealtimeServer.Port > 0;
            }
        }
    }

    public sealed partial class UpdateEntry
    {
        /// <summary>Whether the room's behaviour says this. No member can send such an update.</summary>
        public bool IsServer { get { return Sender != null && Sender.IsServer; } }
    }
}
