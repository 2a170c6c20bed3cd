const express = require('express');
const jwt = require('jsonwebtoken');
const bcrypt = require('bcrypt');

const SECRET = process.env.JWT_SECRET;
if (!SECRET) {
  console.error('JWT_SECRET must be set');
  process.exit(1);
}

const users = new Map(); // email -> { hash, role }

function authenticate(req, res, next) {
  const [scheme, token] = (req.headers.authorization || '').split(' ');
  if (scheme !== 'Bearer' || !token) return res.status(401).json({ error: 'missing token' });
  try {
    req.user = jwt.verify(token, SECRET, { algorithms: ['HS256'] });
    next();
  } catch (err) {
    const msg = err.name === 'TokenExpiredError' ? 'token expired' : 'invalid token';
    res.status(401).json({ error: msg });
  }
}

const requireRole = (...roles) => (req, res, next) =>
  roles.includes(req.user.role) ? next() : res.status(403).json({ error: 'forbidden' });

const app = express();
app.use(express.json());

app.post('/register', async (req, res) => {
  const { email, password } = req.body;
  if (!email || !password || password.length < 8) return res.status(400).json({ error: 'invalid input' });
  if (users.has(email)) return res.status(409).json({ error: 'already registered' });
  users.set(email, { hash: await bcrypt.hash(password, 12), role: users.size === 0 ? 'admin' : 'user' });
  res.status(201).end();
});

app.post('/login', async (req, res) => {
  const user = users.get(req.body.email);
  if (!user || !(await bcrypt.compare(req.body.password || '', user.hash))) {
    return res.status(401).json({ error: 'wrong email or password' });
  }
  const token = jwt.sign({ sub: req.body.email, role: user.role }, SECRET, { expiresIn: '1h' });
  res.json({ token });
});

app.get('/profile', authenticate, (req, res) => res.json(req.user));
app.get('/admin', authenticate, requireRole('admin'), (req, res) => res.json([...users.keys()]));

app.listen(3000);
