SELECT plan(2);
SELECT pass('begins');
SELECT pg_sleep(3600);
SELECT pass('never comes');
SELECT * FROM finish();
