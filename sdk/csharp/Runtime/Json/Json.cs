using System;

namespace Greenroom
{
    /// <summary>Reads and writes JSON without reflection, so that it works where code is compiled ahead.</summary>
    public static class Json
    {
        /// <summary>How deep arrays and objects may be nested.</summary>
        public const int DepthMax = 512;

        /// <summary>
        /// Return a value of JSON: null, bool, long, double, string, JsonArray or JsonObject.
        /// A whole number that does not fit into a long becomes a double.
        /// </summary>
        /// <exception cref="FormatException">The text is no JSON, or is nested too deeply.</exception>
        public static object Parse(string text)
        {
            if (text == null) throw new ArgumentNullException("text");
            return new JsonReader(text).ReadWhole();
        }

        /// <summary>Return an object of JSON.</summary>
        /// <exception cref="FormatException">The text is no JSON, or no object.</exception>
        public static JsonObject ParseObject(string text)
        {
            var found = Parse(text) as JsonObject;
            if (found == null) throw new FormatException("The JSON is no object");
            return found;
        }

        /// <summary>
        /// Return a value as JSON. It may hold numbers of all kinds, dictionaries with string keys, and
        /// anything that can be enumerated.
        /// </summary>
        /// <exception cref="ArgumentException">JSON has no form for the value.</exception>
        public static string Write(object value)
        {
            return new JsonWriter().WriteWhole(value);
        }
    }
}
