SELECT plan(2);
SELECT has_table('loans');
SELECT is((SELECT count(*) FROM returned), 0::bigint, 'nothing has come back');
SELECT * FROM finish();
