import { readdir, readFile } from 'fs/promises';
import { join, relative } from 'path';
import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';
import { CloudFrontClient, CreateInvalidationCommand } from '@aws-sdk/client-cloudfront';
import { lookup } from 'mime-types';

const bucket = requireEnv('SITE_BUCKET');
const distribution = process.env.CLOUDFRONT_ID;
const dir = process.argv[2] ?? 'dist';
const region = process.env.AWS_REGION ?? 'eu-central-1';

function requireEnv(name: string): string {
  const value = process.env[name];
  if (!value) {
    console.error(`${name} is required`);
    process.exit(1);
  }
  return value;
}

async function* walk(folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const full = join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(full);
    else yield full;
  }
}

async function main(): Promise<void> {
  const s3 = new S3Client({ region });
  let count = 0;
  for await (const file of walk(dir)) {
    const key = relative(dir, file).replace(/\\/g, '/');
    const immutable = /\.[0-9a-f]{8,}\./.test(key);
    await s3.send(
      new PutObjectCommand({
        Bucket: bucket,
        Key: key,
        Body: await readFile(file),
        ContentType: lookup(key) || 'application/octet-stream',
        CacheControl: immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
      }),
    );
    count++;
  }
  console.log(`${count} files uploaded to ${bucket}`);

  if (distribution) {
    const cf = new CloudFrontClient({ region });
    await cf.send(
      new CreateInvalidationCommand({
        DistributionId: distribution,
        InvalidationBatch: { CallerReference: Date.now().toString(), Paths: { Quantity: 1, Items: ['/*'] } },
      }),
    );
  }
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
