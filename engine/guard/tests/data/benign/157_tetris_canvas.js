const canvas = document.getElementById('game');
const ctx = canvas.getContext('2d');
const COLS = 10, ROWS = 20, SIZE = 24;
canvas.width = COLS * SIZE;
canvas.height = ROWS * SIZE;

const SHAPES = {
  I: [[1, 1, 1, 1]],
  O: [[1, 1], [1, 1]],
  T: [[0, 1, 0], [1, 1, 1]],
  S: [[0, 1, 1], [1, 1, 0]],
  Z: [[1, 1, 0], [0, 1, 1]],
  J: [[1, 0, 0], [1, 1, 1]],
  L: [[0, 0, 1], [1, 1, 1]],
};
const COLORS = { I: '#0cc', O: '#cc0', T: '#a0a', S: '#0a0', Z: '#c00', J: '#00c', L: '#d80' };

let board = Array.from({ length: ROWS }, () => Array(COLS).fill(null));
let piece = spawn();
let score = 0;
let last = 0;

function spawn() {
  const kinds = Object.keys(SHAPES);
  const kind = kinds[Math.floor(Math.random() * kinds.length)];
  return { kind, shape: SHAPES[kind], x: 3, y: 0 };
}

function collides(shape, x, y) {
  return shape.some((row, dy) =>
    row.some((cell, dx) => cell && (x + dx < 0 || x + dx >= COLS || y + dy >= ROWS || board[y + dy]?.[x + dx]))
  );
}

const rotate = (m) => m[0].map((_, i) => m.map((row) => row[i]).reverse());

function lock() {
  piece.shape.forEach((row, dy) => row.forEach((c, dx) => { if (c) board[piece.y + dy][piece.x + dx] = piece.kind; }));
  const kept = board.filter((row) => row.some((c) => !c));
  const cleared = ROWS - kept.length;
  score += [0, 100, 300, 500, 800][cleared];
  board = [...Array.from({ length: cleared }, () => Array(COLS).fill(null)), ...kept];
  piece = spawn();
  if (collides(piece.shape, piece.x, piece.y)) {
    alert(`Game over: ${score}`);
    board.forEach((row) => row.fill(null));
    score = 0;
  }
}

function drop() {
  if (collides(piece.shape, piece.x, piece.y + 1)) lock();
  else piece.y++;
}

document.addEventListener('keydown', (e) => {
  const move = (dx) => { if (!collides(piece.shape, piece.x + dx, piece.y)) piece.x += dx; };
  if (e.key === 'ArrowLeft') move(-1);
  else if (e.key === 'ArrowRight') move(1);
  else if (e.key === 'ArrowDown') drop();
  else if (e.key === 'ArrowUp') {
    const turned = rotate(piece.shape);
    if (!collides(turned, piece.x, piece.y)) piece.shape = turned;
  }
});

function frame(time) {
  if (time - last > Math.max(120, 600 - score / 10)) {
    drop();
    last = time;
  }
  ctx.clearRect(0, 0, canvas.width, canvas.height);
  const cell = (x, y, kind) => {
    ctx.fillStyle = COLORS[kind];
    ctx.fillRect(x * SIZE, y * SIZE, SIZE - 1, SIZE - 1);
  };
  board.forEach((row, y) => row.forEach((k, x) => k && cell(x, y, k)));
  piece.shape.forEach((row, dy) => row.forEach((c, dx) => c && cell(piece.x + dx, piece.y + dy, piece.kind)));
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);
