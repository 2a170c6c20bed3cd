//! A waiting runner with its modules imported reports the same as one that is started for a project.

use hotcell_sandbox::pool::{Pool, PoolOptions};

use super::*;

const TESTS: &str = "
import os, sys, unittest
class T(unittest.TestCase):
    def test_ok(self): print(sys.argv[0].split('/')[-1], os.getcwd())
    def test_bad(self): self.assertEqual(1, 2, 'no')
    def test_error(self): raise ValueError('x')
    @unittest.skip('why')
    def test_skip(self): pass
    def test_sub(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primed_unittest_runner_equals_fresh_one() {
    if with_python().is_none() {
        return;
    }
    let folder = project(&[("test_it.py", TESTS)]);
    let framework = framework("unittest").unwrap();
    let session = || {
        let project = ProjectFolder::open(folder.path()).unwrap();
        let command = framework.command(&Selection::default(), &project).unwrap();
        let policy = Policy::new("/usr/bin/python3").args(&command.argv[1..]);
        Session::new(framework, command, policy.workspace(folder.path()).limits(limits())).unwrap()
    };
    // Durations differ between runs.
    let told = |report: &TestReport| {
        let cases = report
            .cases
            .iter()
            .map(|c| (c.id.clone(), c.status, c.message.clone(), c.stdout.clone(), c.line));
        (report.verdict, report.complete, report.consistent, cases.collect::<Vec<_>>())
    };
    let pool = Pool::new(Engine::new(), PoolOptions { each: 1, ..PoolOptions::default() });
    let cold = session().run(pool.engine(), &mut |_| ()).await;
    assert_eq!((cold.verdict, cold.cases.len()), (Verdict::Failed, 5), "{cold:?}");
    let begun = std::time::Instant::now();
    while pool.served().primed < 3 {
        let hot = session().run(&pool, &mut |_| ()).await;
        assert_eq!(told(&hot), told(&cold));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", pool.served());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
