using System;
using System.Collections.Generic;
using System.Linq;

namespace Greenroom.Tests
{
    /// <summary>Says what is not as it should be, and ends the program.</summary>
    static class Check
    {
        internal static int Count;

        internal static void That(bool isSo, string what)
        {
            Count++;
            if (!isSo) throw new Exception("Not so: " + what);
        }

        internal static void Equal<T>(T wanted, T found, string what)
        {
            That(EqualityComparer<T>.Default.Equals(wanted, found), what + ": " + found + " is not " + wanted);
        }

        /// <summary>Check that two JSON values are the same, whatever the order of names.</summary>
        internal static void Same(object wanted, object found, string what)
        {
            That(AreSame(wanted, found), what + ": " + Json.Write(found) + " is not " + Json.Write(wanted));
        }

        internal static bool AreSame(object one, object other)
        {
            var fields = one as JsonObject;
            var entries = one as JsonArray;
            if (fields != null)
            {
                var others = other as JsonObject;
                return others != null && fields.Count == others.Count
                    && fields.All(each => others.ContainsKey(each.Key) && AreSame(each.Value, others[each.Key]));
            }
            if (entries != null)
            {
                var others = other as JsonArray;
                return others != null && entries.Count == others.Count
                    && entries.Zip(others, AreSame).All(isSame => isSame);
            }
            return Equals(one, other);
        }
    }
}
