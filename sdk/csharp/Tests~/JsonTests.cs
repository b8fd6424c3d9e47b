using System;

namespace Greenroom.Tests
{
    /// <summary>JSON: what is read is written the same, and what is none is refused.</summary>
    static class JsonTests
    {
        static readonly string[] Good =
        {
            "null", "true", "false", "0", "-1", "9223372036854775807", "-9223372036854775808", "1.5", "-0.25",
            "\"\"", "\"é ✓\"", "\"\\\"\\\\\"", "[]", "{}", "[1,[2,{\"a\":[]}]]", "{\"a\":null,\"b\":{\"c\":\"d\"}}",
        };

        static readonly string[] Bad =
        {
            "", " ", "nul", "tru", "01", "-", "-01", "1.", ".5", "1e", "+1", "1e999", "NaN", "\"", "\"\\x\"", "\"\\u12\"",
            "\"\\u12g4\"", "\"\n\"", "[", "[1", "[1,", "[1,]", "[,]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}",
            "{1:1}", "1 2", "[] []", "'a'", "{\"a\" 1}",
        };

        internal static void Run()
        {
            foreach (var text in Good) Check.Equal(text, Json.Write(Json.Parse(text)), "JSON read and written");
            foreach (var text in Bad) Check.That(IsRefused(text), "refused as JSON: " + text);
            Check.Equal(" \u2713/", (string)Json.Parse("\"\\u0020\\u2713\\/\""), "escapes");
            Check.Equal("\ud83d\ude00", (string)Json.Parse(Json.Write("\ud83d\ude00")), "a pair of surrogates");
            Check.That(Json.Parse("9223372036854775808") is double, "a number too large for a long");
            Check.Equal("3.0", Json.Write(3.0), "a double stays one");
            Check.That(IsRefused(new string('[', 100000)), "refused: nested too deeply");
            var nested = new string('[', Json.DepthMax) + new string(']', Json.DepthMax);
            Check.Equal(nested, Json.Write(Json.Parse(nested)), "nested as deeply as may be");
            Check.That(CannotWrite(double.NaN) && CannotWrite(new object()), "what JSON has no form for");
            CheckAccess();
        }

        static void CheckAccess()
        {
            var json = Json.ParseObject("{\"a\":\"17\",\"b\":2.0,\"c\":\"x\",\"t\":\"2026-03-13T14:01:49Z\",\"d\":{\"e\":1}}");
            Check.Equal(17, json.GetLong("a"), "digits in a string");
            Check.Equal(2, json.GetLong("b"), "a whole double");
            Check.That(json.GetOptionalLong("c") == null && json.GetOptionalLong("none") == null, "no number");
            Check.Equal(14, json.GetTime("t").Value.Hour, "a time");
            Check.Equal("{\"e\":1}", json.GetDocument("d"), "a document that came as JSON");
        }

        static bool IsRefused(string text)
        {
            try
            {
                Json.Parse(text);
                return false;
            }
            catch (FormatException)
            {
                return true;
            }
        }

        static bool CannotWrite(object value)
        {
            try
            {
                Json.Write(value);
                return false;
            }
            catch (ArgumentException)
            {
                return true;
            }
        }
    }
}
