using System;
using System.Collections;
using System.Globalization;
using System.Text;

namespace Greenroom
{
    /// <summary>Writes one value as JSON.</summary>
    internal sealed class JsonWriter
    {
        readonly StringBuilder built = new StringBuilder();
        int depth;

        internal string WriteWhole(object value)
        {
            Write(value);
            return built.ToString();
        }

        void Write(object value)
        {
            if (value == null) built.Append("null");
            else if (value is string) WriteString((string)value);
            else if (value is RawJson) built.Append(((RawJson)value).Text);
            else if (value is bool) built.Append((bool)value ? "true" : "false");
            else if (value is double || value is float) WriteDouble(Convert.ToDouble(value, CultureInfo.InvariantCulture));
            else if (value is IDictionary) WriteObject((IDictionary)value);
            else if (value is IEnumerable) WriteArray((IEnumerable)value);
            else if (IsNumber(value)) built.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
            else throw new ArgumentException("JSON has no form for a " + value.GetType().FullName);
        }

        static bool IsNumber(object value)
        {
            return value is int || value is long || value is uint || value is ulong || value is short
                || value is ushort || value is byte || value is sbyte || value is decimal;
        }

        void WriteObject(IDictionary value)
        {
            Enter('{');
            var isFirst = true;
            foreach (DictionaryEntry entry in value)
            {
                var name = entry.Key as string;
                if (name == null) throw new ArgumentException("A name in a JSON object must be a string");
                if (!isFirst) built.Append(',');
                isFirst = false;
                WriteString(name);
                built.Append(':');
                Write(entry.Value);
            }
            Leave('}');
        }

        void WriteArray(IEnumerable value)
        {
            Enter('[');
            var isFirst = true;
            foreach (var entry in value)
            {
                if (!isFirst) built.Append(',');
                isFirst = false;
                Write(entry);
            }
            Leave(']');
        }

        void Enter(char bracket)
        {
            if (++depth > Json.DepthMax) throw new ArgumentException("The value is nested too deeply for JSON");
            built.Append(bracket);
        }

        void Leave(char bracket)
        {
            depth--;
            built.Append(bracket);
        }

        void WriteDouble(double value)
        {
            if (double.IsNaN(value) || double.IsInfinity(value))
                throw new ArgumentException("JSON has no form for " + value.ToString(CultureInfo.InvariantCulture));
            var text = value.ToString("R", CultureInfo.InvariantCulture);
            built.Append(text);
            if (text.IndexOfAny(new[] { '.', 'E' }) < 0) built.Append(".0");
        }

        void WriteString(string value)
        {
            built.Append('"');
            foreach (var c in value)
            {
                if (c == '"' || c == '\\') built.Append('\\').Append(c);
                else if (c == '\n') built.Append("\\n");
                else if (c < ' ' || char.IsSurrogate(c)) built.Append("\\u").Append(((int)c).ToString("x4"));
                else built.Append(c);
            }
            built.Append('"');
        }
    }
}
