using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>
    /// A room in real time: messages, events, actions and the room's state, over connections that may be lost.
    /// A lost connection is opened again by itself, and what was missed comes then.
    /// </summary>
    /// <remarks>
    /// Call Poll once a frame. Events are raised there, and actions end there, so that a game needs no locks.
    /// Use all members from the thread that calls Poll.
    /// </remarks>
    public sealed class RoomChannel : IDisposable
    {
        const int UnsentMax = 256;
        const int UnsentCharactersMax = 1 << 20;
        static readonly TimeSpan ActionTimeMax = TimeSpan.FromSeconds(30);

        readonly ChannelLink link;
        readonly PendingActions actions = new PendingActions();
        readonly List<string> unsent = new List<string>();
        int unsentCharacters;
        readonly Dictionary<string, Action<RoomMessage>> handlers = new Dictionary<string, Action<RoomMessage>>();
        readonly Dictionary<ushort, uint> streams = new Dictionary<ushort, uint>();
        Connection connection;
        FastLane lane;
        bool wantsLane, isAsking;
        GreenroomException over;

        /// <summary>A message has come.</summary>
        public event Action<RoomMessage> MessageReceived;
        /// <summary>Something has happened in the room.</summary>
        public event Action<RoomEvent> EventReceived;
        /// <summary>The room's state has changed.</summary>
        public event Action<RoomState> StateChanged;
        /// <summary>The server has taken a message of ours.</summary>
        public event Action<SentNotice> MessageSent;
        /// <summary>The server has not taken a message of ours.</summary>
        public event Action<Complaint> Complained;
        /// <summary>A connection is open: the first, or another one after one was lost.</summary>
        public event Action Connected;
        /// <summary>The connection is lost, and is being opened again; or Closed follows.</summary>
        public event Action<ChannelClosedException> ConnectionLost;
        /// <summary>The channel is over; nothing comes any more.</summary>
        public event Action<GreenroomException> Closed;

        RoomChannel(ChannelLink link, string roomId)
        {
            this.link = link;
            RoomId = roomId;
            State = new RoomState();
        }

        /// <summary>The room's id.</summary>
        public string RoomId { get; private set; }

        /// <summary>The state that the room's behaviour shows.</summary>
        public RoomState State { get; private set; }

        /// <summary>Whether there is a connection, as far as Poll has seen.</summary>
        public bool IsConnected { get { return connection != null; } }

        /// <summary>Whether the channel is over.</summary>
        public bool IsClosed { get { return over != null; } }

        /// <summary>Whether SendFast uses UDP now.</summary>
        public bool IsFastLaneUp { get { return lane != null && lane.IsUp; } }

        /// <summary>The counts of the present fast lane; null without one.</summary>
        public FastLaneStatistics FastLaneStatistics { get { return lane == null ? null : lane.Statistics; } }

        /// <summary>Messages that came over UDP and were dropped, because too many waited for Poll.</summary>
        public long FastMessagesDropped { get { return Interlocked.Read(ref fastMessagesDropped); } }

        long fastMessagesDropped;

        /// <summary>Connect to the room in which the player has a seat.</summary>
        /// <exception cref="GreenroomException">The connection could not be opened.</exception>
        internal static async Task<RoomChannel> Connect(PlayerApi player, string roomId, ChannelOptions options)
        {
            var link = new ChannelLink(player.MintToken, roomId, options ?? new ChannelOptions());
            var channel = new RoomChannel(link, roomId);
            await link.Start().ConfigureAwait(false);
            return channel;
        }

        // What comes.

        /// <summary>Handle what has come since the last call. An exception of a handler is raised here.</summary>
        public void Poll()
        {
            actions.EndLate();
            Incoming item;
            for (var left = link.Queue.Count; left > 0 && link.Queue.TryTake(out item); left--) Handle(item);
        }

        /// <summary>Have messages of one kind handled. Others, and those of no kind, go to MessageReceived.</summary>
        public void On<T>(MessageType<T> type, Action<T, RoomMessage> handler)
        {
            handlers[type.Command] = message => handler(type.Read(message.DataJson), message);
        }

        void Handle(Incoming item)
        {
            if (item.Frame != null) HandleFrame(item.Frame);
            else if (item.Fast != null) HandleFast(item.Fast);
            else if (item.Connected != null) HandleConnected(item.Connected);
            else if (item.Lost != null) HandleLost(item.Lost);
            else HandleOver(item.Over);
        }

        void HandleConnected(Connection opened)
        {
            connection = opened;
            isAsking = false;
            if (State.IsLost) AskState();
            if (wantsLane) Put(Frames.OpenUdp);
            actions.AskAgain(opened);
            foreach (var text in unsent) opened.PutWaiting(text);
            unsent.Clear();
            unsentCharacters = 0;
            if (Connected != null) Connected();
        }

        void HandleLost(ChannelClosedException error)
        {
            connection = null;
            CloseLane();
            if (ConnectionLost != null) ConnectionLost(error);
        }

        void HandleOver(GreenroomException error)
        {
            connection = null;
            CloseLane();
            over = error;
            actions.EndAll(error);
            if (Closed != null) Closed(error);
        }

        void HandleFrame(JsonObject frame)
        {
            switch (frame.GetString("type"))
            {
                case "receive":
                    HandleMessage(RoomMessage.Read(frame));
                    break;
                case "event":
                    HandleEvent(frame);
                    break;
                case "action_result":
                    actions.Take(frame.GetString("id"), ResultEntry.Read(frame));
                    break;
                case "sent":
                    var notice = new SentNotice
                    {
                        Command = frame.GetString("command"), TargetCount = frame.GetLong("target_count"),
                    };
                    if (MessageSent != null) MessageSent(notice);
                    break;
                case "error":
                    var complaint = Complaint.Read(frame);
                    if (!actions.Refuse(complaint) && Complained != null) Complained(complaint);
                    break;
                case "udp":
                    OpenLane(frame.GetObject("data"));
                    break;
            }
        }

        void HandleMessage(RoomMessage message)
        {
            Action<RoomMessage> handler;
            if (message.Command != null && handlers.TryGetValue(message.Command, out handler)) handler(message);
            else if (MessageReceived != null) MessageReceived(message);
        }

        void HandleFast(FastFrame frame)
        {
            HandleMessage(new RoomMessage
            {
                Command = frame.Command, DataJson = frame.DataJson, SenderId = frame.SenderId,
                IsHost = frame.IsHost, IsServer = frame.IsServer, IsFast = true,
            });
        }

        void HandleEvent(JsonObject frame)
        {
            var name = frame.GetString("event");
            var data = ReadData(frame);
            if (name == "state" || name == "delta")
            {
                var hasChanged = State.Take(name, data);
                isAsking = isAsking && State.IsLost;
                if (State.IsLost) AskState();
                if (hasChanged && StateChanged != null) StateChanged(State);
            }
            else if (EventReceived != null) EventReceived(new RoomEvent { Name = name, Data = data });
        }

        internal static JsonObject ReadData(JsonObject frame)
        {
            var text = frame.GetString("data_json");
            if (text == null) return frame.GetObject("data") ?? new JsonObject();
            try
            {
                return Json.Parse(text) as JsonObject ?? new JsonObject();
            }
            catch (FormatException)
            {
                return new JsonObject();
            }
        }

        /// <summary>Ask for the whole state, unless it has been asked for and not come yet.</summary>
        void AskState()
        {
            if (isAsking || connection == null) return;
            isAsking = true;
            Put(Frames.WantState);
        }

        // What goes.

        /// <summary>
        /// Send a message. While there is no connection, it waits for the next one. It is lost if the connection
        /// is lost on the way: only MessageSent says that the server has taken it.
        /// </summary>
        /// <param name="command">A word that the game defines.</param>
        /// <param name="data">Any value that Json.Write takes.</param>
        /// <param name="target">The receivers; never the sender.</param>
        /// <param name="targetIds">The ids of the members, for Target.Specific.</param>
        /// <exception cref="OutboxFullException">Too much waits; nothing was sent.</exception>
        /// <exception cref="GreenroomException">The channel is over.</exception>
        public void Send(string command, object data, Target target = Target.All, IList<long> targetIds = null)
        {
            SendJson(command, Json.Write(data), target, targetIds);
        }

        /// <summary>Send a message of a kind; see Send.</summary>
        public void Send<T>(MessageType<T> type, T data, Target target = Target.All, IList<long> targetIds = null)
        {
            SendJson(type.Command, type.Write(data), target, targetIds);
        }

        /// <summary>Send a message whose data is a string of JSON; see Send.</summary>
        public void SendJson(
            string command, string dataJson, Target target = Target.All, IList<long> targetIds = null)
        {
            ThrowIfOver();
            var text = Frames.Send(command, dataJson, target, targetIds ?? new long[0]);
            if (connection != null) connection.Put(text);
            else KeepUnsent(text);
        }

        void KeepUnsent(string text)
        {
            var isTooLong = unsent.Count > 0 && unsentCharacters + (long)text.Length > UnsentCharactersMax;
            if (unsent.Count >= UnsentMax || isTooLong)
                throw new OutboxFullException(unsent.Count + " messages wait for a connection: wait, too");
            unsent.Add(text);
            unsentCharacters += text.Length;
        }

        /// <summary>
        /// Ask a member for something, and wait for the result, over lost connections, too. It happens once at
        /// most. The task ends in a call of Poll.
        /// </summary>
        /// <param name="actionType">A word that the game defines.</param>
        /// <param name="requestData">An object that Json.Write takes; null for an empty one.</param>
        /// <param name="targetId">The member; null is the host. Only the host may ask another member.</param>
        /// <param name="timeMax">How long to wait for the result; 30 s if left out.</param>
        /// <exception cref="OutboxFullException">Too much waits to be sent; nothing was sent.</exception>
        /// <exception cref="ActionRefusedException">It was not taken; nothing has changed.</exception>
        /// <exception cref="ActionFailedException">It was settled, and has failed.</exception>
        /// <exception cref="ActionLostException">No result came; it may have happened, or happen yet.</exception>
        /// <exception cref="GreenroomException">The channel is over; it may have happened.</exception>
        public Task<ResultEntry> Ask(
            string actionType, object requestData = null, long? targetId = null, TimeSpan? timeMax = null)
        {
            return AskJson(actionType, requestData == null ? "{}" : Json.Write(requestData), targetId, timeMax);
        }

        /// <summary>Ask for an action of a kind; see Ask.</summary>
        public async Task<TResponse> Ask<TRequest, TResponse>(
            ActionType<TRequest, TResponse> type, TRequest request, long? targetId = null, TimeSpan? timeMax = null)
        {
            return type.Read((await AskJson(type.Name, type.Write(request), targetId, timeMax)).ResponseDataJson);
        }

        /// <summary>Ask for an action whose data is a string of JSON; see Ask.</summary>
        public Task<ResultEntry> AskJson(
            string actionType, string requestDataJson, long? targetId = null, TimeSpan? timeMax = null)
        {
            ThrowIfOver();
            return actions.Ask(connection, actionType, requestDataJson, targetId, timeMax ?? ActionTimeMax);
        }

        /// <summary>
        /// Ask for the UDP fast lane. It is kept open, and opened again with each connection. If the server
        /// refuses it, Complained says why.
        /// </summary>
        public void OpenFastLane()
        {
            ThrowIfOver();
            if (!wantsLane && connection != null) Put(Frames.OpenUdp);
            wantsLane = true;
        }

        /// <summary>Send a message that may be lost: over UDP if the fast lane is up, else as Send.</summary>
        /// <param name="command">A word that the game defines, at most 64 bytes.</param>
        /// <param name="data">Any value that Json.Write takes.</param>
        /// <param name="stream">1 to 65,535: receivers take only messages newer than the last one of this stream and
        /// sender. With 0, each message is independent.</param>
        /// <param name="target">The receivers; never the sender.</param>
        /// <param name="targetIds">The ids of the members, for Target.Specific; at most 16.</param>
        /// <returns>Whether it was sent over UDP.</returns>
        public bool SendFast(
            string command, object data, ushort stream = 0, Target target = Target.All, IList<long> targetIds = null)
        {
            ThrowIfOver();
            var dataJson = Json.Write(data);
            if (lane != null)
            {
                uint sequence = 0;
                if (stream != 0)
                {
                    streams.TryGetValue(stream, out sequence);
                    streams[stream] = unchecked(++sequence);
                }
                var frame = FastFrames.WriteMessage(command, dataJson, target, targetIds, stream, sequence);
                if (frame != null && lane.Send(frame)) return true;
            }
            SendJson(command, dataJson, target, targetIds);
            return false;
        }

        void OpenLane(JsonObject keys)
        {
            CloseLane();
            try
            {
                lane = new FastLane(keys ?? new JsonObject(), TakeFast);
                lane.Start();
            }
            catch (ArgumentException error)
            {
                if (Complained != null) Complained(new Complaint { Text = "No fast lane: " + error.Message });
            }
        }

        /// <summary>Queue a message that came over UDP. Called on the lane's thread.</summary>
        void TakeFast(FastFrame frame)
        {
            if (frame.DataJson != null && !link.Queue.TryPut(frame)) Interlocked.Increment(ref fastMessagesDropped);
        }

        void CloseLane()
        {
            if (lane != null) lane.Close();
            lane = null;
        }

        /// <summary>Send what a full outbox may swallow, because the next connection says it again.</summary>
        void Put(string text)
        {
            try
            {
                connection.Put(text);
            }
            catch (OutboxFullException)
            {
                connection.Cut();
            }
        }

        void ThrowIfOver()
        {
            if (over != null) throw over;
        }

        /// <summary>Close the channel, and return at once. Messages sent before are still sent, if the program goes on
        /// for long enough. Poll raises Closed.</summary>
        public void Close()
        {
            CloseLane();
            link.End();
        }

        /// <summary>Close the channel, and wait until what was sent before is sent: two and a half seconds at
        /// most.</summary>
        public void Dispose()
        {
            CloseLane();
            link.End().Wait();
        }
    }
}
