// A player who answers: opens a room, tells its id, and greets back everybody who says hello over
// the realtime channel, until somebody says bye. For C# of any kind, Mono and Unity among them: messages
// are classes with fields, which Unity's JsonUtility can read and write too (`format=engine`, `client=engine`).
//
//     mcs -r:System.Net.Http -r:System.Runtime.Serialization Answering.cs
//     mono Answering.exe http://127.0.0.1:8080 API_TOKEN Ann
using System;
using System.IO;
using System.Net.Http;
using System.Net.WebSockets;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

public class Nothing { }
public class Register { public string player_name; }
public class Create { public bool realtime; }

/// <summary>What the answers to the calls below hold; what an answer lacks stays empty.</summary>
public class Answer
{
    public bool success;
    public string error;
    public string private_key;
    public string room_id;
    public string token;
    public RealtimeServer realtime_server;
}

public class RealtimeServer { public string host; public int port; public string protocol; }
public class Sender { public int game_player_id; public string player_name; public bool is_server; }
public class Incoming { public string type; public string command; public string data_json; public Sender sender; }
public class Send { public string type, command, data_json, target; public int[] target_ids; }
public class Heartbeat { public string type = "heartbeat"; }

public class Answering
{
    static readonly TimeSpan HeartbeatInterval = TimeSpan.FromSeconds(20);

    readonly HttpClient http = new HttpClient();
    readonly ClientWebSocket channel = new ClientWebSocket();
    readonly SemaphoreSlim sending = new SemaphoreSlim(1); // one frame at a time

    Answering(string server, string key)
    {
        http.BaseAddress = new Uri(server + "/api/");
        http.DefaultRequestHeaders.Add("X-Api-Token", key);
    }

    public static int Main(string[] arguments)
    {
        try
        {
            new Answering(arguments[0], arguments[1]).Play(arguments[2]).GetAwaiter().GetResult();
            return 0;
        }
        catch (Exception error)
        {
            Console.Error.WriteLine(error.Message);
            return 1;
        }
    }

    async Task Play(string name)
    {
        var me = await Call("game_players.php/register", new Register { player_name = name });
        http.DefaultRequestHeaders.Add("X-Game-Player-Token", me.private_key);
        var made = await Call("game_room.php/create", new Create { realtime = true });
        var minted = await Call("realtime.php/token", new Nothing());
        var at = minted.realtime_server;
        channel.Options.SetRequestHeader("X-Realtime-Token", minted.token);
        var url = at.protocol + "://" + at.host + ":" + at.port + "/?client=engine";
        await channel.ConnectAsync(new Uri(url), CancellationToken.None);
        Console.WriteLine("room " + made.room_id);
        using (new Timer(_ => Say(new Heartbeat()).Wait(), null, HeartbeatInterval, HeartbeatInterval))
            while (await Take(Read<Incoming>(await Receive()))) { }
        await Call("game_room.php/leave", new Nothing());
    }

    /// <summary>Answer a message; false when somebody has said bye.</summary>
    async Task<bool> Take(Incoming message)
    {
        if (message.type == "receive" && message.command == "hello")
        {
            var name = message.sender.is_server ? "The server" : message.sender.player_name;
            Console.WriteLine(name + " says " + message.data_json);
            await Say(new Send
            {
                type = "send",
                command = "hello_back",
                data_json = "{\"heard\":" + message.data_json + "}",
                target = "specific",
                target_ids = new[] { message.sender.game_player_id },
            });
        }
        return !(message.type == "receive" && message.command == "bye");
    }

    /// <summary>Call an operation of the API; a refusal is thrown with its text.</summary>
    async Task<Answer> Call<T>(string path, T body)
    {
        var content = new StringContent(Write(body), Encoding.UTF8, "application/json");
        var response = await http.PostAsync(path + "?format=engine", content);
        var answer = Read<Answer>(await response.Content.ReadAsByteArrayAsync());
        if (!answer.success) throw new Exception(answer.error);
        return answer;
    }

    async Task Say<T>(T message)
    {
        var bytes = new ArraySegment<byte>(Encoding.UTF8.GetBytes(Write(message)));
        await sending.WaitAsync();
        try { await channel.SendAsync(bytes, WebSocketMessageType.Text, true, CancellationToken.None); }
        finally { sending.Release(); }
    }

    /// <summary>Return the next message, in however many pieces it comes.</summary>
    async Task<byte[]> Receive()
    {
        var whole = new MemoryStream();
        var buffer = new ArraySegment<byte>(new byte[4096]);
        while (true)
        {
            var piece = await channel.ReceiveAsync(buffer, CancellationToken.None);
            if (piece.MessageType == WebSocketMessageType.Close)
                throw new Exception("closed with " + piece.CloseStatus + " " + piece.CloseStatusDescription);
            whole.Write(buffer.Array, 0, piece.Count);
            if (piece.EndOfMessage) return whole.ToArray();
        }
    }

    static string Write<T>(T value)
    {
        var stream = new MemoryStream();
        new DataContractJsonSerializer(typeof(T)).WriteObject(stream, value);
        return Encoding.UTF8.GetString(stream.ToArray());
    }

    static T Read<T>(byte[] json)
    {
        return (T)new DataContractJsonSerializer(typeof(T)).ReadObject(new MemoryStream(json));
    }
}
