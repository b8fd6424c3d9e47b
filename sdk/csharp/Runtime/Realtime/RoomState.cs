using System;
using System.Globalization;

namespace Greenroom
{
    /// <summary>
    /// The state of a room as its behaviour shows it to this member. It is changed in place as changes come:
    /// copy what you want to keep.
    /// </summary>
    public sealed class RoomState
    {
        /// <summary>What all members see: a value as Json.Parse returns it. Null before any has come.</summary>
        public object Shared { get; private set; }
        /// <summary>What this member alone sees, such as a hand of cards; null if nothing.</summary>
        public object Private { get; private set; }
        /// <summary>The server's count; 0 before any has come.</summary>
        public long Version { get; private set; }

        /// <summary>Whether a change is missing: the whole must be asked for, and until then nothing changes.</summary>
        internal bool IsLost { get; private set; }

        /// <summary>Apply an event; return whether the state has changed.</summary>
        internal bool Take(string name, JsonObject data)
        {
            try
            {
                if (name == "state") return Replace(data);
                return Version > 0 && !IsLost && Advance(data);
            }
            catch (FormatException)
            {
                IsLost = true;
                return false;
            }
        }

        bool Replace(JsonObject data)
        {
            if (data.GetOptionalLong("version") == null) throw new FormatException("A state without a version");
            Version = data.GetLong("version");
            Shared = data.Get("shared");
            Private = data.Get("private");
            IsLost = false;
            return true;
        }

        bool Advance(JsonObject data)
        {
            if (data.GetOptionalLong("from") != Version) throw new FormatException("A change is missing");
            Shared = Patch(Shared, data.GetObject("shared"));
            Private = Patch(Private, data.GetObject("private"));
            Version = data.GetLong("to");
            return true;
        }

        /// <summary>Return a value with a delta applied; objects and arrays are changed in place.</summary>
        /// <exception cref="FormatException">The delta was not made from this value.</exception>
        internal static object Patch(object old, JsonObject delta)
        {
            if (delta == null) return old;
            if (delta.ContainsKey("v")) return delta["v"];
            var fields = old as JsonObject;
            var entries = old as JsonArray;
            if (fields != null) PatchObject(fields, delta);
            else if (entries != null) PatchArray(entries, delta);
            else throw new FormatException("A delta for what is neither object nor array");
            return old;
        }

        static void PatchObject(JsonObject fields, JsonObject delta)
        {
            foreach (var set in delta.GetObject("s") ?? new JsonObject()) fields[set.Key] = set.Value;
            foreach (var change in delta.GetObject("c") ?? new JsonObject())
            {
                if (!fields.ContainsKey(change.Key)) throw new FormatException("No key " + change.Key);
                fields[change.Key] = Patch(fields[change.Key], change.Value as JsonObject);
            }
            foreach (var key in delta.GetArray("d") ?? new JsonArray())
                if (!(key is string) || !fields.Remove((string)key)) throw new FormatException("No key " + key);
        }

        static void PatchArray(JsonArray entries, JsonObject delta)
        {
            foreach (var set in delta.GetObject("s") ?? new JsonObject()) entries[Position(entries, set.Key)] = set.Value;
            foreach (var change in delta.GetObject("c") ?? new JsonObject())
            {
                var position = Position(entries, change.Key);
                entries[position] = Patch(entries[position], change.Value as JsonObject);
            }
            var length = delta.GetOptionalLong("n") ?? entries.Count;
            if (length < 0 || length > entries.Count) throw new FormatException("No length " + length);
            entries.RemoveRange((int)length, entries.Count - (int)length);
            entries.AddRange(delta.GetArray("a") ?? new JsonArray());
        }

        static int Position(JsonArray entries, string key)
        {
            int position;
            var isNumber = int.TryParse(key, NumberStyles.None, CultureInfo.InvariantCulture, out position);
            if (!isNumber || position >= entries.Count) throw new FormatException("No position " + key);
            return position;
        }
    }
}
