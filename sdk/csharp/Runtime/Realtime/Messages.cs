using System;
using System.Collections.Generic;

namespace Greenroom
{
    /// <summary>The receivers of a message: never its sender.</summary>
    public enum Target
    {
        /// <summary>All members.</summary>
        All = 0,
        /// <summary>The host.</summary>
        Host = 1,
        /// <summary>All members but the sender; the same as All here.</summary>
        Others = 2,
        /// <summary>The members whose ids are given.</summary>
        Specific = 3,
    }

    /// <summary>A message of another member, or of the room's behaviour.</summary>
    public sealed class RoomMessage
    {
        /// <summary>A word that the game defines.</summary>
        public string Command { get; internal set; }
        /// <summary>The data as a string of JSON, for JsonUtility and the like.</summary>
        public string DataJson { get; internal set; }
        /// <summary>The sender's player id; 0 is the room itself.</summary>
        public long SenderId { get; internal set; }
        /// <summary>The sender's name; null for what came over UDP.</summary>
        public string SenderName { get; internal set; }
        /// <summary>Whether the sender was host then.</summary>
        public bool IsHost { get; internal set; }
        /// <summary>Whether the room's behaviour says this. No member can send such a message.</summary>
        public bool IsServer { get; internal set; }
        /// <summary>Whether it was sent as one that may be lost.</summary>
        public bool IsFast { get; internal set; }

        /// <summary>Return the data, read: see Json.Parse.</summary>
        public object ReadData()
        {
            return Json.Parse(DataJson);
        }

        internal static RoomMessage Read(JsonObject frame)
        {
            var sender = frame.GetObject("sender") ?? new JsonObject();
            return new RoomMessage
            {
                Command = frame.GetString("command"),
                DataJson = frame.GetDocument("data") ?? "null",
                SenderId = sender.GetLong("game_player_id"),
                SenderName = sender.GetString("player_name"),
                IsHost = sender.GetBool("is_host"),
                IsServer = sender.GetBool("is_server"),
                IsFast = frame.GetBool("unreliable"),
            };
        }
    }

    /// <summary>Something that happened in the room: `member_joined`, `host_changed`, `replay_gap` and so on.</summary>
    public sealed class RoomEvent
    {
        /// <summary>The name of the event.</summary>
        public string Name { get; internal set; }
        /// <summary>What belongs to it; empty where nothing does.</summary>
        public JsonObject Data { get; internal set; }
    }

    /// <summary>The server has taken a message of ours.</summary>
    public sealed class SentNotice
    {
        /// <summary>The command of the message.</summary>
        public string Command { get; internal set; }
        /// <summary>For how many members it is.</summary>
        public long TargetCount { get; internal set; }
    }

    /// <summary>The server did not understand a message, or refused it.</summary>
    public sealed class Complaint
    {
        /// <summary>The reason, for people.</summary>
        public string Text { get; internal set; }
        /// <summary>After how long to try again; null where that would change nothing.</summary>
        public TimeSpan? RetryAfter { get; internal set; }
        internal string RequestId;

        internal static Complaint Read(JsonObject frame)
        {
            var about = frame.GetObject("data") ?? new JsonObject();
            return new Complaint
            {
                Text = about.GetString("message") ?? "",
                RetryAfter = about.GetSeconds("retry_after"),
                RequestId = frame.GetString("id"),
            };
        }
    }

    /// <summary>The frames that a client sends.</summary>
    internal static class Frames
    {
        internal const string Heartbeat = "{\"type\":\"heartbeat\"}";
        internal const string WantState = "{\"type\":\"state\"}";
        internal const string OpenUdp = "{\"type\":\"udp_open\",\"suites\":[\"chacha20-poly1305\"]}";

        internal static readonly string[] Targets = { "all", "host", "others", "specific" };

        internal static string Send(string command, string dataJson, Target target, IList<long> ids)
        {
            var frame = new JsonObject
            {
                { "type", "send" }, { "command", command }, { "data_json", dataJson },
                { "target", Targets[(int)target] },
            };
            if (target == Target.Specific) frame["target_ids"] = ids;
            return Json.Write(frame);
        }

        internal static string Action(string id, string actionType, string requestDataJson, long? targetId, bool again)
        {
            var frame = new JsonObject
            {
                { "type", "action" }, { "id", id }, { "action_type", actionType },
                { "request_data_json", requestDataJson },
            };
            if (targetId != null) frame["target_id"] = targetId.Value;
            if (again) frame["again"] = true;
            return Json.Write(frame);
        }
    }
}
