import { WebSocketServer, WebSocket } from 'ws';
import { createServer } from 'http';

type ClientMessage =
  | { type: 'subscribe'; topic: string }
  | { type: 'unsubscribe'; topic: string }
  | { type: 'publish'; topic: string; data: unknown };

interface Client extends WebSocket {
  isAlive: boolean;
  topics: Set<string>;
}

const server = createServer((_req, res) => {
  res.writeHead(200, { 'Content-Type': 'text/plain' });
  res.end('ok\n');
});
const wss = new WebSocketServer({ server });

function parse(raw: string): ClientMessage | null {
  try {
    const msg = JSON.parse(raw);
    return typeof msg?.topic === 'string' ? (msg as ClientMessage) : null;
  } catch {
    return null;
  }
}

wss.on('connection', (socket) => {
  const client = socket as Client;
  client.isAlive = true;
  client.topics = new Set();

  client.on('pong', () => (client.isAlive = true));
  client.on('message', (raw) => {
    const msg = parse(raw.toString());
    if (!msg) return client.send(JSON.stringify({ error: 'invalid message' }));
    switch (msg.type) {
      case 'subscribe':
        client.topics.add(msg.topic);
        break;
      case 'unsubscribe':
        client.topics.delete(msg.topic);
        break;
      case 'publish':
        for (const other of wss.clients as Set<Client>) {
          if (other.readyState === WebSocket.OPEN && other.topics.has(msg.topic)) {
            other.send(JSON.stringify({ topic: msg.topic, data: msg.data }));
          }
        }
    }
  });
});

const heartbeat = setInterval(() => {
  for (const client of wss.clients as Set<Client>) {
    if (!client.isAlive) {
      client.terminate();
      continue;
    }
    client.isAlive = false;
    client.ping();
  }
}, 30_000);

wss.on('close', () => clearInterval(heartbeat));
server.listen(Number(process.env.PORT ?? 8080), () => console.log('listening'));
