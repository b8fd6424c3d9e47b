using System;
using System.Collections.Generic;
using System.Threading.Tasks;
using Greenroom;

/// <summary>Two players: they meet in a room, and guess in turn until one finds its number.</summary>
public sealed class GuessingGame : IDisposable
{
    readonly GameApi game;
    readonly Action<string> say;
    readonly List<RoomChannel> rooms = new List<RoomChannel>();
    readonly Dictionary<long, string> names = new Dictionary<long, string>();
    readonly TaskCompletionSource<JsonObject> won = new TaskCompletionSource<JsonObject>();

    /// <summary>Prepare a round.</summary>
    /// <param name="url">The server's address, such as http://127.0.0.1:8080.</param>
    /// <param name="projectKey">The game's project key.</param>
    /// <param name="say">Called with each line of the story.</param>
    public GuessingGame(string url, string projectKey, Action<string> say)
    {
        game = new GameApi(url, projectKey);
        this.say = say;
    }

    /// <summary>Play one round. It goes on in calls of Poll.</summary>
    public async Task Play()
    {
        var ann = await SignUp("Ann");
        var bob = await SignUp("Bob");
        var made = await ann.CreateRoom(new CreateRoomRequest { Realtime = true });
        await bob.JoinRoom(made.RoomId);
        rooms.Add(await ann.Connect(made.RoomId));
        rooms.Add(await bob.Connect(made.RoomId));
        rooms[0].MessageReceived += message =>
        {
            // nobody but the room itself can say this
            if (message.IsServer && message.Command == "won") won.TrySetResult((JsonObject)message.ReadData());
        };
        rooms[0].ConnectionLost += reason => say("Ann's connection is lost: " + reason.Message);
        await Guess();
        var told = await won.Task;
        say(names[told.GetLong("by")] + " has won with " + told.GetLong("number"));
    }

    async Task<PlayerApi> SignUp(string name)
    {
        var account = await game.Register(new RegisterRequest { PlayerName = name });
        names[account.PlayerId] = name;
        return game.Player(account.PrivateKey); // keep the key: it is the player's token
    }

    async Task Guess()
    {
        long low = 1, high = 100;
        for (var turn = 0; low <= high; turn = 1 - turn)
        {
            var number = (low + high) / 2;
            var result = await rooms[turn].Ask("guess", new JsonObject { { "number", number } });
            var answer = Json.ParseObject(result.ResponseDataJson).GetString("it_is");
            say((turn == 0 ? "Ann" : "Bob") + " guesses " + number + ": " + answer);
            if (answer == "right") return;
            if (answer == "higher") low = number + 1;
            else high = number - 1;
        }
    }

    /// <summary>Handle what has come: call it once a frame.</summary>
    public void Poll()
    {
        foreach (var room in rooms.ToArray()) room.Poll();
    }

    /// <summary>Leave the room, and close the connections.</summary>
    public void Dispose()
    {
        foreach (var room in rooms) room.Close();
        game.Dispose();
    }
}
