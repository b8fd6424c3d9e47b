using System;

namespace Greenroom
{
    /// <summary>How much has come on a connection, so that the next one begins where it ended.</summary>
    internal sealed class ResumeCursor
    {
        string connectionId;

        /// <summary>How many of the frames that count have come.</summary>
        internal long Sequence { get; private set; }

        /// <summary>What to ask for in the query when connecting; null for the first time.</summary>
        internal string Query
        {
            get { return connectionId == null ? null : "resume=" + connectionId + "." + Sequence; }
        }

        /// <summary>Note the greeting of a new connection.</summary>
        internal void Begin(JsonObject connected)
        {
            connectionId = connected.GetString("connection_id");
            Sequence = 0;
        }

        /// <summary>Count a frame, if it counts: what every member gets anew does not.</summary>
        internal void Take(JsonObject frame)
        {
            var type = frame.GetString("type");
            var name = frame.GetString("event");
            var counts = type == "action_result"
                || (type == "receive" && !frame.GetBool("unreliable"))
                || (type == "event" && name != "state" && name != "delta");
            if (counts) Sequence++;
        }

        /// <summary>Return a frame of the server; null for one that makes no sense, which is passed over.</summary>
        internal static JsonObject Read(string text)
        {
            JsonObject frame;
            try
            {
                frame = Json.Parse(text) as JsonObject;
            }
            catch (FormatException)
            {
                return null;
            }
            if (frame == null) return null;
            switch (frame.GetString("type"))
            {
                case null: return null;
                case "receive":
                    var sender = frame.GetObject("sender");
                    var isOfSomebody = sender != null && sender.GetOptionalLong("game_player_id") != null;
                    return isOfSomebody && frame.GetString("command") != null ? frame : null;
                case "event": return frame.GetString("event") != null ? frame : null;
                case "action_result": return frame.Get("id") is string || frame.Get("id") is long ? frame : null;
                default: return frame;
            }
        }
    }
}
