using System;
using System.Collections.Concurrent;
using System.Threading;
using Greenroom;

/// <summary>Plays a round in a terminal, without Unity.</summary>
public static class Program
{
    /// <summary>Run with the server's address and the project key.</summary>
    public static int Main(string[] arguments)
    {
        if (arguments.Length != 2)
        {
            Console.Error.WriteLine("Say where the server is, and the project key: http://127.0.0.1:8080 KEY");
            return 2;
        }
        var frames = new Frames();
        SynchronizationContext.SetSynchronizationContext(frames);
        using (var game = new GuessingGame(arguments[0], arguments[1], Console.WriteLine))
        {
            var playing = game.Play();
            while (!playing.IsCompleted)
            {
                frames.RunOnce();
                game.Poll();
                Thread.Sleep(10);
            }
            try
            {
                playing.GetAwaiter().GetResult();
                return 0;
            }
            catch (GreenroomException error)
            {
                Console.Error.WriteLine(error.Message);
                return 1;
            }
        }
    }
}

/// <summary>Has what follows an await run on the main thread, as Unity does.</summary>
sealed class Frames : SynchronizationContext
{
    readonly ConcurrentQueue<Action> waiting = new ConcurrentQueue<Action>();

    public override void Post(SendOrPostCallback callback, object state)
    {
        waiting.Enqueue(() => callback(state));
    }

    public void RunOnce()
    {
        Action next;
        while (waiting.TryDequeue(out next)) next();
    }
}
