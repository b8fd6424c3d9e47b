using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;

namespace Greenroom.Tests
{
    /// <summary>Compares the realtime half with the vectors that all SDKs share: sdk/vectors.</summary>
    static class VectorTests
    {
        internal static void Run(string folder)
        {
            CheckDeltas(Read(folder, "deltas"));
            CheckFrames(Read(folder, "frames"));
            CheckResume(Read(folder, "resume"));
            CheckWaiting();
            FastLaneTests.Run(Read(folder, "fast_lane"));
        }

        static JsonObject Read(string folder, string name)
        {
            return Json.ParseObject(File.ReadAllText(Path.Combine(folder, name + ".json")));
        }

        internal static IEnumerable<JsonObject> Objects(JsonObject vectors, string name)
        {
            var found = vectors.GetArray(name).Cast<JsonObject>().ToArray();
            Check.That(found.Length > 0, "there are vectors: " + name);
            return found;
        }

        static void CheckDeltas(JsonObject vectors)
        {
            foreach (var vector in Objects(vectors, "deltas"))
            {
                var patched = RoomState.Patch(vector.Get("old"), vector.GetObject("delta"));
                Check.Same(vector.Get("new"), patched, vector.GetString("name"));
            }
            foreach (var vector in Objects(vectors, "states"))
            {
                var state = new RoomState();
                foreach (var step in Objects(vector, "events")) CheckStep(state, step, vector.GetString("name"));
            }
        }

        static void CheckStep(RoomState state, JsonObject step, string name)
        {
            var frame = step.GetObject("frame");
            state.Take(frame.GetString("event"), RoomChannel.ReadData(frame));
            Check.Same(step.Get("shared"), state.Shared, name);
            Check.Same(step.Get("private"), state.Private, name);
            Check.Equal(step.GetLong("version"), state.Version, name);
            Check.Equal(step.GetBool("is_lost"), state.IsLost, name);
        }

        static void CheckFrames(JsonObject vectors)
        {
            foreach (var vector in Objects(vectors, "from_server"))
                foreach (var form in new[] { "text", "engine_text" })
                {
                    var cursor = new ResumeCursor();
                    var frame = ResumeCursor.Read(vector.GetString(form));
                    Check.That(frame != null, vector.GetString("name"));
                    cursor.Take(frame);
                    Check.Equal(vector.GetBool("counts") ? 1L : 0L, cursor.Sequence, vector.GetString("name"));
                }
            foreach (var vector in Objects(vectors, "ignored"))
            {
                var cursor = new ResumeCursor();
                var frame = ResumeCursor.Read(vector.GetString("text"));
                if (frame != null) cursor.Take(frame);
                Check.Equal(0L, cursor.Sequence, vector.GetString("name"));
            }
            var texts = Objects(vectors, "from_clients").Select(each => Json.ParseObject(each.GetString("text"))).ToArray();
            foreach (var ours in new[] { Frames.Heartbeat, Frames.WantState })
                Check.That(texts.Any(each => Check.AreSame(each, Json.Parse(ours))), "the server understands " + ours);
            foreach (var frame in texts.Where(each => each.GetString("type") == "send" && !each.ContainsKey("id")))
                CheckSend(frame);
            foreach (var frame in texts.Where(each => each.GetString("type") == "action")) CheckAction(frame);
        }

        /// <summary>Check that a frame of ours says the same as one that the server understands.</summary>
        static void CheckSend(JsonObject wanted)
        {
            var data = wanted.GetDocument("data");
            var target = (Target)Array.IndexOf(Frames.Targets, wanted.GetString("target"));
            var ids = (wanted.GetArray("target_ids") ?? new JsonArray()).Select(id => (long)id).ToArray();
            var ours = Json.ParseObject(Frames.Send(wanted.GetString("command"), data, target, ids));
            foreach (var name in new[] { "type", "command", "target", "target_ids" })
                Check.Same(wanted.Get(name), ours.Get(name), "send: " + name);
            Check.Equal(data, ours.GetString("data_json"), "send: data");
        }

        static void CheckAction(JsonObject wanted)
        {
            var id = wanted.GetString("id");
            if (id == null) return; // ids of ours are strings
            var ours = Json.ParseObject(Frames.Action(
                id, wanted.GetString("action_type"), wanted.GetDocument("request_data"),
                wanted.GetOptionalLong("target_id"), wanted.GetBool("again")));
            foreach (var name in new[] { "type", "id", "action_type", "target_id", "again" })
                Check.Same(wanted.Get(name), ours.Get(name), "action: " + name);
            Check.Equal(wanted.GetDocument("request_data"), ours.GetDocument("request_data"), "action: request_data");
        }

        static void CheckWaiting()
        {
            var actions = new PendingActions();
            foreach (var endless in new[] { Timeout.InfiniteTimeSpan, TimeSpan.MaxValue })
            {
                var asked = actions.Ask(null, "deal", "{}", null, endless);
                actions.EndLate();
                Check.That(!asked.IsCompleted, "a time without end does not end at once");
            }
            var large = actions.Ask(null, "deal", new string('x', 1 << 20), null, TimeSpan.FromSeconds(1));
            Check.That(large.IsFaulted, "what waits is bounded in bytes");
            var late = actions.Ask(null, "deal", "{}", null, TimeSpan.Zero);
            actions.EndLate();
            Check.That(late.IsFaulted, "no time at all ends at once");
        }

        static void CheckResume(JsonObject vectors)
        {
            foreach (var vector in Objects(vectors, "connections"))
            {
                var cursor = new ResumeCursor();
                foreach (var connection in Objects(vector, "connections"))
                {
                    Check.Equal(connection.GetString("query"), cursor.Query, vector.GetString("name"));
                    foreach (string text in connection.GetArray("frames"))
                    {
                        var frame = ResumeCursor.Read(text);
                        if (frame == null) continue;
                        if (frame.GetString("type") == "connected") cursor.Begin(frame.GetObject("data"));
                        else cursor.Take(frame);
                    }
                    Check.Equal(connection.GetLong("sequence"), cursor.Sequence, vector.GetString("name"));
                }
            }
        }
    }
}
