const express = require('express');
const { randomUUID } = require('crypto');

const app = express();
app.use(express.json());

const books = new Map();

function validateBook(req, res, next) {
  const { title, author, year } = req.body;
  const errors = [];
  if (typeof title !== 'string' || !title.trim()) errors.push('title is required');
  if (typeof author !== 'string' || !author.trim()) errors.push('author is required');
  if (year !== undefined && !Number.isInteger(year)) errors.push('year must be an integer');
  if (errors.length) return res.status(400).json({ errors });
  next();
}

app.get('/books', (req, res) => {
  const { author } = req.query;
  let list = [...books.values()];
  if (author) list = list.filter((b) => b.author.toLowerCase().includes(author.toLowerCase()));
  res.json(list);
});

app.get('/books/:id', (req, res) => {
  const book = books.get(req.params.id);
  if (!book) return res.status(404).json({ error: 'not found' });
  res.json(book);
});

app.post('/books', validateBook, (req, res) => {
  const book = { id: randomUUID(), ...req.body, createdAt: new Date().toISOString() };
  books.set(book.id, book);
  res.status(201).json(book);
});

app.put('/books/:id', validateBook, (req, res) => {
  if (!books.has(req.params.id)) return res.status(404).json({ error: 'not found' });
  const updated = { ...books.get(req.params.id), ...req.body };
  books.set(req.params.id, updated);
  res.json(updated);
});

app.delete('/books/:id', (req, res) => {
  if (!books.delete(req.params.id)) return res.status(404).json({ error: 'not found' });
  res.status(204).end();
});

app.use((err, req, res, next) => {
  console.error(err);
  res.status(500).json({ error: 'internal server error' });
});

const port = process.env.PORT || 3000;
app.listen(port, () => console.log(`Listening on http://localhost:${port}`));
