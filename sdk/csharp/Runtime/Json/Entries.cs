using System;
using System.Collections.Generic;

namespace Greenroom
{
    /// <summary>Reads the entries of arrays in replies; what does not fit is passed over.</summary>
    internal static class Entries
    {
        internal static List<T> Structs<T>(JsonArray entries, Func<JsonObject, T> read)
        {
            var found = new List<T>();
            foreach (var entry in entries ?? new JsonArray())
                if (entry is JsonObject) found.Add(read((JsonObject)entry));
            return found;
        }

        internal static List<string> Strings(JsonArray entries)
        {
            var found = new List<string>();
            foreach (var entry in entries ?? new JsonArray())
                if (entry is string) found.Add((string)entry);
            return found;
        }

        internal static List<long> Longs(JsonArray entries)
        {
            var found = new List<long>();
            foreach (var entry in entries ?? new JsonArray())
                if (entry is long) found.Add((long)entry);
            return found;
        }
    }
}
