using System.Collections.Concurrent;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>One thing that a channel has to handle; exactly one field is set.</summary>
    internal sealed class Incoming
    {
        internal JsonObject Frame;
        internal FastFrame Fast;
        internal Connection Connected;
        internal ChannelClosedException Lost;
        /// <summary>The last one of a channel.</summary>
        internal GreenroomException Over;
    }

    /// <summary>
    /// What has come and waits for Poll. When it is full, nothing more is read, so that in the end the server
    /// closes the connection; what came over UDP is dropped.
    /// </summary>
    internal sealed class IncomingQueue
    {
        internal const int CountMax = 1024;

        readonly ConcurrentQueue<Incoming> queue = new ConcurrentQueue<Incoming>();
        readonly SemaphoreSlim places = new SemaphoreSlim(CountMax);
        volatile bool isFull;

        /// <summary>Whether a frame waits for a place.</summary>
        internal bool IsFull { get { return isFull; } }

        internal int Count { get { return queue.Count; } }

        /// <summary>Queue a frame, as soon as there is a place for it.</summary>
        internal async Task Put(JsonObject frame, CancellationToken ending)
        {
            if (!places.Wait(0))
            {
                isFull = true;
                await places.WaitAsync(ending).ConfigureAwait(false);
                isFull = false;
            }
            queue.Enqueue(new Incoming { Frame = frame });
        }

        /// <summary>Queue a message that may be lost; return false if there is no place for it.</summary>
        internal bool TryPut(FastFrame fast)
        {
            if (!places.Wait(0)) return false;
            queue.Enqueue(new Incoming { Fast = fast });
            return true;
        }

        /// <summary>Queue what happens to the connection: at most two for each connection.</summary>
        internal void PutNotice(Incoming notice)
        {
            queue.Enqueue(notice);
        }

        internal bool TryTake(out Incoming item)
        {
            if (!queue.TryDequeue(out item)) return false;
            if (item.Frame != null || item.Fast != null) places.Release();
            return true;
        }
    }
}
