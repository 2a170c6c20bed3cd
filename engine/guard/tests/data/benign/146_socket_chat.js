const net = require('net');

const clients = new Map();
let counter = 0;

function broadcast(message, except) {
  for (const [socket] of clients) {
    if (socket !== except) socket.write(message + '\r\n');
  }
}

const server = net.createServer((socket) => {
  const name = `user${++counter}`;
  clients.set(socket, { name, buffer: '' });
  socket.setEncoding('utf8');
  socket.write(`Welcome ${name}. Commands: /name NEW, /who, /quit\r\n`);
  broadcast(`* ${name} joined`, socket);

  socket.on('data', (chunk) => {
    const client = clients.get(socket);
    client.buffer += chunk;
    let index;
    while ((index = client.buffer.indexOf('\n')) >= 0) {
      const line = client.buffer.slice(0, index).trim();
      client.buffer = client.buffer.slice(index + 1);
      handleLine(socket, client, line);
    }
  });

  socket.on('close', () => {
    const { name: last } = clients.get(socket);
    clients.delete(socket);
    broadcast(`* ${last} left`);
  });
  socket.on('error', (err) => console.error('socket error', err.code));
});

function handleLine(socket, client, line) {
  if (!line) return;
  if (line.startsWith('/name ')) {
    const old = client.name;
    client.name = line.slice(6).trim().slice(0, 20) || old;
    broadcast(`* ${old} is now ${client.name}`);
  } else if (line === '/who') {
    socket.write([...clients.values()].map((c) => c.name).join(', ') + '\r\n');
  } else if (line === '/quit') {
    socket.end('bye\r\n');
  } else {
    broadcast(`<${client.name}> ${line}`, socket);
  }
}

server.listen(4000, () => console.log('chat on port 4000'));
