require('dotenv').config();
const { MongoClient } = require('mongodb');

const DAYS = Number(process.env.DAYS || 30);
const dryRun = !process.argv.includes('--apply');

async function main() {
  const client = new MongoClient(process.env.MONGO_URL);
  await client.connect();
  try {
    const users = client.db().collection('users');
    const filter = {
      emailVerified: false,
      createdAt: { $lt: new Date(Date.now() - DAYS * 24 * 3600 * 1000) },
      role: { $ne: 'admin' },
    };
    const count = await users.countDocuments(filter);
    console.log(`${count} unverified users older than ${DAYS} days`);
    if (dryRun) {
      console.log('dry run, use --apply to delete');
      return;
    }
    const { deletedCount } = await users.deleteMany(filter);
    console.log(`deleted ${deletedCount}`);
  } finally {
    await client.close();
  }
}

main().catch((e) => {
  console.error(e);
  process.exitCode = 1;
});
