using System;
using System.Collections.Generic;
using System.Globalization;

namespace Greenroom
{
    /// <summary>A JSON object. Values are null, bool, long, double, string, JsonArray or JsonObject.</summary>
    public sealed class JsonObject : Dictionary<string, object>
    {
        /// <summary>Return a value, or null where there is none.</summary>
        public object Get(string name)
        {
            object value;
            return TryGetValue(name, out value) ? value : null;
        }

        /// <summary>Return a string, or null where there is no string.</summary>
        public string GetString(string name)
        {
            return Get(name) as string;
        }

        /// <summary>Return whether the value is true.</summary>
        public bool GetBool(string name)
        {
            return Get(name) is bool && (bool)Get(name);
        }

        /// <summary>Return a whole number, which may come as a string of digits; otherwise 0.</summary>
        public long GetLong(string name)
        {
            return GetOptionalLong(name) ?? 0;
        }

        /// <summary>Return a whole number, which may come as a string of digits; otherwise null.</summary>
        public long? GetOptionalLong(string name)
        {
            var value = Get(name);
            long number;
            if (value is long) return (long)value;
            if (value is double) return ToLong((double)value);
            var isDigits = long.TryParse(
                value as string, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out number);
            return isDigits ? number : (long?)null;
        }

        /// <summary>Return a number; 0 where there is none.</summary>
        public double GetDouble(string name)
        {
            return GetOptionalDouble(name) ?? 0.0;
        }

        /// <summary>Return a number; null where there is none.</summary>
        public double? GetOptionalDouble(string name)
        {
            var value = Get(name);
            if (value is double) return (double)value;
            return value is long ? (double)(long)value : (double?)null;
        }

        /// <summary>Return a time that a server has named in seconds, a day at most; null where there is
        /// none.</summary>
        internal TimeSpan? GetSeconds(string name)
        {
            var seconds = GetOptionalDouble(name);
            if (seconds == null) return null;
            return TimeSpan.FromSeconds(Math.Min(Math.Max(seconds.Value, 0.0), 86400.0));
        }

        /// <summary>Return an object, or null where there is none.</summary>
        public JsonObject GetObject(string name)
        {
            return Get(name) as JsonObject;
        }

        /// <summary>Return an array, or null where there is none.</summary>
        public JsonArray GetArray(string name)
        {
            return Get(name) as JsonArray;
        }

        /// <summary>Return a moment in UTC, written as 2026-03-13T14:01:49Z; null where there is none.</summary>
        public DateTime? GetTime(string name)
        {
            DateTime moment;
            const DateTimeStyles Utc = DateTimeStyles.AdjustToUniversal | DateTimeStyles.AssumeUniversal;
            var isTime = DateTime.TryParse(GetString(name), CultureInfo.InvariantCulture, Utc, out moment);
            return isTime ? moment : (DateTime?)null;
        }

        /// <summary>
        /// Return a document as a string of JSON. Servers send it as a string beside the name with `_json`;
        /// where it came as JSON, it is written again. Null where there is neither.
        /// </summary>
        public string GetDocument(string name)
        {
            var text = GetString(name + "_json");
            if (text != null) return text;
            return ContainsKey(name) ? Json.Write(Get(name)) : null;
        }

        /// <summary>Set a value, unless it is null.</summary>
        internal void SetUnlessNull(string name, object value)
        {
            if (value != null) this[name] = value;
        }

        static long? ToLong(double value)
        {
            var fits = value >= -9.2233720368547758e18 && value < 9.2233720368547758e18;
            return fits && Math.Floor(value) == value ? (long)value : (long?)null;
        }
    }

    /// <summary>A JSON array; see JsonObject for its values.</summary>
    public sealed class JsonArray : List<object>
    {
        /// <summary>Begin with nothing.</summary>
        public JsonArray() { }

        /// <summary>Hold these values.</summary>
        public JsonArray(IEnumerable<object> values) : base(values) { }
    }
}
