const { scrypt, randomBytes, timingSafeEqual } = require('crypto');
const { promisify } = require('util');

const scryptAsync = promisify(scrypt);
const PARAMS = { N: 16384, r: 8, p: 1 };

async function hashPassword(password) {
  const salt = randomBytes(16);
  const key = await scryptAsync(password.normalize('NFKC'), salt, 64, PARAMS);
  return ['scrypt', PARAMS.N, PARAMS.r, PARAMS.p, salt.toString('base64'), key.toString('base64')].join('$');
}

async function verifyPassword(password, stored) {
  const [name, N, r, p, salt, hash] = stored.split('$');
  if (name !== 'scrypt') throw new Error('unknown hash format');
  const expected = Buffer.from(hash, 'base64');
  const key = await scryptAsync(password.normalize('NFKC'), Buffer.from(salt, 'base64'), expected.length, {
    N: Number(N),
    r: Number(r),
    p: Number(p),
  });
  return timingSafeEqual(key, expected);
}

module.exports = { hashPassword, verifyPassword };

if (require.main === module) {
  (async () => {
    const stored = await hashPassword('correct horse');
    console.log(stored);
    console.log(await verifyPassword('correct horse', stored), await verifyPassword('wrong', stored));
  })();
}
