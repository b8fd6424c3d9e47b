using System;
using System.IO;
using System.Linq;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom.Tests
{
    /// <summary>
    /// Plays in the scenario that all SDKs run in one room: it does what the driver says over TCP, a line of
    /// JSON at a time. Its loop is a game's: it polls the room, frame by frame.
    /// </summary>
    sealed class ScenarioPlayer
    {
        static readonly TimeSpan Frame = TimeSpan.FromMilliseconds(10);

        readonly StreamWriter answers;
        readonly StreamReader orders;
        GameApi game;
        PlayerApi player;
        RoomChannel room;
        JsonArray messages = new JsonArray(), events = new JsonArray();
        long connections;
        string end = "";

        ScenarioPlayer(Stream driver)
        {
            orders = new StreamReader(driver, new UTF8Encoding(false));
            answers = new StreamWriter(driver, new UTF8Encoding(false)) { AutoFlush = true, NewLine = "\n" };
        }

        internal static void Run(string driver)
        {
            var address = driver.Split(':');
            using (var connection = new TcpClient(address[0], int.Parse(address[1])))
                new ScenarioPlayer(connection.GetStream()).Play();
        }

        void Play()
        {
            answers.WriteLine(Json.Write(new JsonObject { { "sdk", "csharp" } }));
            string verb;
            do
            {
                var order = Json.ParseObject(WaitFor(orders.ReadLineAsync()));
                verb = order.GetString("do");
                answers.WriteLine(Json.Write(WaitFor(Answer(verb, order))));
            } while (verb != "quit");
        }

        /// <summary>Go on with the game until a task has ended.</summary>
        T WaitFor<T>(Task<T> task)
        {
            while (!task.IsCompleted)
            {
                if (room != null) room.Poll();
                Thread.Sleep(Frame);
            }
            return task.GetAwaiter().GetResult();
        }

        async Task<JsonObject> Answer(string verb, JsonObject order)
        {
            try
            {
                return new JsonObject { { "ok", await Obey(verb, order) } };
            }
            catch (GreenroomException error)
            {
                var limited = error as RateLimitedException;
                var refusal = error as ApiException;
                var closed = error as ChannelClosedException;
                return new JsonObject
                {
                    {
                        "error", new JsonObject
                        {
                            { "kind", Kind(error) }, { "status", refusal == null ? 0 : refusal.Status },
                            { "text", refusal == null ? error.Message : refusal.Error },
                            { "retry_after", limited == null ? (object)null : limited.RetryAfter.TotalSeconds },
                            { "hint", refusal != null ? refusal.Hint : closed != null ? closed.Hint : null },
                        }
                    },
                };
            }
        }

        static string Kind(GreenroomException error)
        {
            var name = error.GetType().Name;
            name = name.Substring(0, name.Length - "Exception".Length);
            return name == "Api" || name == "Server" ? name + "Error" : name;
        }

        Task<JsonObject> Obey(string verb, JsonObject order)
        {
            switch (verb)
            {
                case "register": return Register(order);
                case "create_lobby": return CreateLobby(order);
                case "join_lobby": return JoinLobby(order);
                case "start_lobby": return StartLobby();
                case "current": return Current();
                case "join_room": return JoinRoom(order);
                case "connect": return Connect(order);
                case "action": return Act(order);
                case "save": return Save(order);
                case "leaderboard": return Leaderboard(order);
                default: return Task.FromResult(ObeyAtOnce(verb, order));
            }
        }

        async Task<JsonObject> Register(JsonObject order)
        {
            game = new GameApi(order.GetString("url"), order.GetString("api_token"));
            var made = await game.Register(new RegisterRequest { PlayerName = order.GetString("name") });
            player = game.Player(made.PrivateKey);
            return new JsonObject { { "player_id", made.PlayerId } };
        }

        async Task<JsonObject> CreateLobby(JsonObject order)
        {
            var made = await player.CreateLobby(new CreateLobbyRequest
            {
                MaxPlayers = order.GetLong("max_players"), RealtimeRoom = true, RulesJson = Json.Write(order.Get("rules")),
            });
            return new JsonObject { { "lobby_id", made.MatchmakingId } };
        }

        async Task<JsonObject> JoinLobby(JsonObject order)
        {
            await player.JoinLobby(order.GetString("lobby_id"));
            return new JsonObject();
        }

        async Task<JsonObject> StartLobby()
        {
            return new JsonObject { { "room_id", (await player.StartLobby()).RoomId } };
        }

        async Task<JsonObject> Current()
        {
            return new JsonObject { { "room_id", (await player.RoomCurrent()).Room.RoomId } };
        }

        async Task<JsonObject> JoinRoom(JsonObject order)
        {
            await player.JoinRoom(order.GetString("room_id"));
            return new JsonObject();
        }

        async Task<JsonObject> Connect(JsonObject order)
        {
            room = await player.Connect(order.GetString("room_id"));
            room.MessageReceived += message => messages.Add(new JsonObject
            {
                { "command", message.Command }, { "data", message.ReadData() },
                { "sender_id", message.SenderId }, { "is_server", message.IsServer },
                { "is_fast", message.IsFast },
            });
            room.EventReceived += happened => events.Add(happened.Name);
            room.Connected += () => connections++;
            room.Closed += error => end = Kind(error);
            return new JsonObject();
        }

        async Task<JsonObject> Act(JsonObject order)
        {
            var result = await room.Ask(order.GetString("action_type"), order.GetObject("request_data"));
            return new JsonObject { { "response_data", Json.Parse(result.ResponseDataJson) } };
        }

        async void ActAlone(long bytes)
        {
            try
            {
                await room.Ask("flood", new JsonObject { { "text", new string('x', (int)bytes) } });
            }
            catch (GreenroomException) { } // nobody waits for it
        }

        async Task<JsonObject> Save(JsonObject order)
        {
            await player.SetPlayer(Json.Write(order.GetObject("document")));
            return new JsonObject();
        }

        async Task<JsonObject> Leaderboard(JsonObject order)
        {
            var names = order.GetArray("sort_by").Cast<string>().ToArray();
            var found = await game.Leaderboard(new LeaderboardRequest { SortBy = names });
            var entries = found.Leaderboard.Select(
                each => (object)new JsonObject { { "player_id", each.PlayerId }, { "rank", each.Rank } });
            return new JsonObject { { "entries", new JsonArray(entries) } };
        }

        JsonObject ObeyAtOnce(string verb, JsonObject order)
        {
            switch (verb)
            {
                case "send":
                    var target = (Target)Array.IndexOf(Frames.Targets, order.GetString("target"));
                    room.Send(order.GetString("command"), order.Get("data"), target);
                    return new JsonObject();
                case "messages":
                    return new JsonObject { { "messages", Drain(ref messages) } };
                case "events":
                    return new JsonObject { { "events", Drain(ref events) } };
                case "connections":
                    return new JsonObject { { "count", connections } };
                case "closed":
                    return new JsonObject { { "kind", end } };
                case "flood":
                    for (var left = order.GetLong("count"); left > 0; left--) ActAlone(order.GetLong("bytes"));
                    return new JsonObject();
                case "state":
                    return new JsonObject { { "shared", room.State.Shared } };
                case "open_fast":
                    room.OpenFastLane();
                    return new JsonObject();
                case "fast_up":
                    return new JsonObject { { "up", room.IsFastLaneUp } };
                case "send_fast":
                    var isOverUdp = room.SendFast(order.GetString("command"), order.Get("data"), 1);
                    return new JsonObject { { "over_udp", isOverUdp } };
                case "quit":
                    if (room != null) room.Close();
                    game.Dispose();
                    return new JsonObject();
                default:
                    throw new ArgumentException("No such verb: " + verb);
            }
        }

        static JsonArray Drain(ref JsonArray found)
        {
            var drained = found;
            found = new JsonArray();
            return drained;
        }
    }
}
