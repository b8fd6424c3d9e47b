using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>Calls operations of the API with one set of headers, and repeats them where that is safe.</summary>
    public sealed class Caller : IDisposable
    {
        readonly HttpClient http;
        readonly string url;
        readonly Dictionary<string, string> headers;
        readonly CallerOptions options;
        readonly Random chance = new Random();
        readonly bool ownsHttp;

        /// <summary>Prepare calls. Nothing is sent yet.</summary>
        /// <param name="url">The server's address, such as https://game.example.</param>
        /// <param name="apiToken">The game's project key.</param>
        /// <param name="options">How calls are made; the defaults if left out.</param>
        public Caller(string url, string apiToken, CallerOptions options = null)
        {
            this.url = url.TrimEnd('/');
            this.options = options ?? new CallerOptions();
            headers = new Dictionary<string, string> { { "X-Api-Token", apiToken } };
            var handler = this.options.Handler;
            http = handler == null ? new HttpClient() : new HttpClient(handler, false);
            http.Timeout = Timeout.InfiniteTimeSpan; // each attempt has its own
            ownsHttp = true;
        }

        Caller(Caller other, string name, string value)
        {
            http = other.http;
            url = other.url;
            options = other.options;
            headers = new Dictionary<string, string>(other.headers) { [name] = value };
        }

        /// <summary>Return a caller that sends this header, too. It shares the connections of this one.</summary>
        internal Caller With(string header, string value)
        {
            return new Caller(this, header, value);
        }

        /// <summary>Close the connections, also those of callers made from this one.</summary>
        public void Dispose()
        {
            if (ownsHttp) http.Dispose();
        }

        /// <summary>Call an operation, and return its answer.</summary>
        /// <param name="method">GET, POST or PUT.</param>
        /// <param name="path">The path with its arguments.</param>
        /// <param name="query">The fields of the query; null for none.</param>
        /// <param name="body">The JSON of the body; null for none.</param>
        /// <param name="isRepeatable">Whether a second time changes nothing more.</param>
        /// <param name="cancellation">Ends the call; it may have happened.</param>
        internal async Task<JsonObject> Call(
            HttpMethod method, string path, JsonObject query, string body, bool isRepeatable,
            CancellationToken cancellation)
        {
            var target = url + path + Query(query);
            var began = Stopwatch.StartNew();
            for (var failures = 1; ; failures++)
            {
                TimeSpan pause;
                try
                {
                    return await Attempt(method, target, body, cancellation).ConfigureAwait(false);
                }
                catch (GreenroomException error)
                {
                    var wait = Pause(error, isRepeatable, failures);
                    if (wait == null || began.Elapsed + wait.Value > options.RepeatTimeMax) throw;
                    pause = wait.Value;
                }
                await Task.Delay(pause, cancellation).ConfigureAwait(false);
            }
        }

        /// <summary>Return a query that asks for documents as strings, and has these fields.</summary>
        static string Query(JsonObject fields)
        {
            var built = new StringBuilder("?format=engine");
            foreach (var field in fields ?? new JsonObject())
            {
                var value = Convert.ToString(field.Value, CultureInfo.InvariantCulture);
                built.Append('&').Append(field.Key).Append('=').Append(Uri.EscapeDataString(value));
            }
            return built.ToString();
        }

        /// <summary>Return how long to wait before the next attempt; null to give up.</summary>
        TimeSpan? Pause(GreenroomException error, bool isRepeatable, int failures)
        {
            var limited = error as RateLimitedException;
            var failed = error as ConnectionFailedException;
            var isSafe = limited != null || (failed != null && !failed.WasSent)
                || (isRepeatable && (failed != null || error is ServerException));
            if (!isSafe || failures >= options.AttemptsMax) return null;
            var pause = Backoff.Pause(options.Backoff, options.BackoffMax, failures, chance);
            return limited == null ? pause : pause + limited.RetryAfter;
        }

        async Task<JsonObject> Attempt(
            HttpMethod method, string target, string body, CancellationToken cancellation)
        {
            using (var patience = CancellationTokenSource.CreateLinkedTokenSource(cancellation))
            using (var request = new HttpRequestMessage(method, target))
            {
                patience.CancelAfter(options.AnswerTimeMax);
                foreach (var header in headers) request.Headers.TryAddWithoutValidation(header.Key, header.Value);
                if (body != null) request.Content = new StringContent(body, Encoding.UTF8, "application/json");
                try
                {
                    using (var answer = await http.SendAsync(request, patience.Token).ConfigureAwait(false))
                    {
                        var bytes = await answer.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
                        return Read(answer, Encoding.UTF8.GetString(bytes));
                    }
                }
                catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
                {
                    var seconds = options.AnswerTimeMax.TotalSeconds;
                    throw new ConnectionFailedException("No answer within " + seconds + " s", true);
                }
                catch (Exception error) when (error is HttpRequestException || error is System.IO.IOException
                    || error is WebException || error is SocketException)
                {
                    throw new ConnectionFailedException(Innermost(error).Message, !IsUnsent(error), error);
                }
            }
        }

        static JsonObject Read(HttpResponseMessage answer, string text)
        {
            var status = (int)answer.StatusCode;
            JsonObject found;
            try
            {
                found = Json.ParseObject(text);
            }
            catch (FormatException error)
            {
                if (status < 400)
                    throw new UnexpectedAnswerException("The answer is no JSON object: is this a Greenroom server?", error);
                found = new JsonObject();
            }
            if (status == 200 && found.GetBool("success")) return found;
            if (found.GetString("error") == null)
            {
                if (status < 400) throw new UnexpectedAnswerException("The answer has neither success nor error");
                found["error"] = "HTTP status " + status;
            }
            throw Refusal(status, found, answer);
        }

        static GreenroomException Refusal(int status, JsonObject found, HttpResponseMessage answer)
        {
            switch (status)
            {
                case 401: return new UnauthorizedException(status, found);
                case 403: return new BannedException(status, found);
                case 404: return new NotFoundException(status, found);
                case 429: return new RateLimitedException(status, found, RetryAfter(found, answer));
            }
            return status >= 500 ? new ServerException(status, found) : new ApiException(status, found);
        }

        static TimeSpan RetryAfter(JsonObject found, HttpResponseMessage answer)
        {
            var header = answer.Headers.RetryAfter;
            var ofHeader = header == null ? null : header.Delta;
            return found.GetSeconds("retry_after") ?? ofHeader ?? TimeSpan.FromSeconds(1.0);
        }

        /// <summary>Return whether the server cannot have got the call: there was no connection.</summary>
        static bool IsUnsent(Exception error)
        {
            for (; error != null; error = error.InnerException)
            {
                var web = error as WebException;
                if (web != null && (web.Status == WebExceptionStatus.ConnectFailure
                    || web.Status == WebExceptionStatus.NameResolutionFailure)) return true;
                var socket = error as SocketException;
                if (socket != null && (socket.SocketErrorCode == SocketError.ConnectionRefused
                    || socket.SocketErrorCode == SocketError.HostNotFound
                    || socket.SocketErrorCode == SocketError.NetworkUnreachable)) return true;
            }
            return false;
        }

        static Exception Innermost(Exception error)
        {
            while (error.InnerException != null) error = error.InnerException;
            return error;
        }
    }
}
