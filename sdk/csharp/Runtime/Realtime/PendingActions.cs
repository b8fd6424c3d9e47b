using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>The actions of one channel that have no result yet, in the order of their calls.</summary>
    internal sealed class PendingActions
    {
        const int CountMax = 1024;
        const int CharactersMax = 1 << 20;
        static readonly Stopwatch Clock = Stopwatch.StartNew();

        sealed class Waiting
        {
            internal string Id, ActionType, RequestDataJson;
            internal long? TargetId;
            internal TimeSpan Until, TimeMax;
            internal int Connections;
            internal readonly TaskCompletionSource<ResultEntry> Outcome = new TaskCompletionSource<ResultEntry>();

            internal string Frame
            {
                get { return Frames.Action(Id, ActionType, RequestDataJson, TargetId, Connections > 1); }
            }
        }

        readonly string prefix = Guid.NewGuid().ToString("N").Substring(0, 12); // no other run has these ids
        readonly List<Waiting> waiting = new List<Waiting>();
        int count;

        /// <summary>Note an action, and ask for it if there is a connection. It is refused if too many wait.</summary>
        internal Task<ResultEntry> Ask(
            Connection connection, string actionType, string requestDataJson, long? targetId, TimeSpan timeMax)
        {
            if (IsFull(requestDataJson))
            {
                var text = "Too many actions wait for their results: wait, too";
                return Task.FromException<ResultEntry>(new ActionRefusedException(new Complaint { Text = text }));
            }
            var action = new Waiting
            {
                Id = prefix + "." + ++count,
                ActionType = actionType,
                RequestDataJson = requestDataJson,
                TargetId = targetId,
                TimeMax = timeMax,
                Until = After(timeMax),
            };
            if (connection != null)
            {
                action.Connections++;
                connection.Put(action.Frame);
            }
            waiting.Add(action);
            return action.Outcome.Task;
        }

        /// <summary>Return whether one more action is one too many; a large one may wait alone.</summary>
        bool IsFull(string requestDataJson)
        {
            var characters = waiting.Sum(each => (long)each.RequestDataJson.Length) + requestDataJson.Length;
            return waiting.Count >= CountMax || (waiting.Count > 0 && characters > CharactersMax);
        }

        static TimeSpan After(TimeSpan timeMax)
        {
            var now = Clock.Elapsed;
            var isEndless = timeMax == Timeout.InfiniteTimeSpan || timeMax > TimeSpan.MaxValue - now;
            return isEndless ? TimeSpan.MaxValue : now + timeMax;
        }

        /// <summary>Ask again over a new connection for all that have no answer. The server takes none twice.</summary>
        internal void AskAgain(Connection connection)
        {
            foreach (var action in waiting)
            {
                action.Connections++;
                connection.PutWaiting(action.Frame);
            }
        }

        /// <summary>Give a result to the action that it belongs to, if it still waits.</summary>
        internal void Take(string id, ResultEntry result)
        {
            var action = Remove(id);
            if (action == null) return;
            if (result.Status == "failed") action.Outcome.TrySetException(new ActionFailedException(result));
            else action.Outcome.TrySetResult(result);
        }

        /// <summary>Return whether a complaint is about an action; if so, end it.</summary>
        internal bool Refuse(Complaint complaint)
        {
            var action = complaint.RequestId == null ? null : Remove(complaint.RequestId);
            if (action == null) return false;
            if (action.Connections > 1) // the first time it may have been taken
                action.Outcome.TrySetException(new ActionLostException(complaint.Text));
            else
                action.Outcome.TrySetException(new ActionRefusedException(complaint));
            return true;
        }

        /// <summary>End those that have waited for too long.</summary>
        internal void EndLate()
        {
            if (waiting.Count == 0) return;
            var now = Clock.Elapsed;
            foreach (var action in waiting.Where(each => each.Until <= now).ToArray())
                End(action, new ActionLostException("No result has come within " + action.TimeMax.TotalSeconds + " s"));
        }

        /// <summary>End all of them: the channel is over.</summary>
        internal void EndAll(GreenroomException error)
        {
            foreach (var action in waiting.ToArray()) End(action, error);
        }

        void End(Waiting action, GreenroomException error)
        {
            waiting.Remove(action);
            action.Outcome.TrySetException(error);
        }

        Waiting Remove(string id)
        {
            var action = waiting.Find(each => each.Id == id);
            waiting.Remove(action);
            return action;
        }
    }
}
