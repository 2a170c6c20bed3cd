//! Tests that run in a real Chromium, Debian's: with karma itself, and in Angular projects.

use super::*;

fn with_chromium() -> bool {
    let there = Path::new("/usr/lib/chromium/chromium").exists();
    if !there {
        println!("skipped: Chromium is not installed; scripts/full installs it");
    }
    there
}

/// Angular and its dependencies, which `scripts/full` installs: 280 MB.
fn with_angular() -> Option<PathBuf> {
    let folder = std::env::var_os("HOTCELL_TEST_ANGULAR").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: Angular is not there (HOTCELL_TEST_ANGULAR); scripts/full installs it");
    }
    folder
}

fn large(wall: u64) -> Limits {
    Limits {
        memory: Bytes::mib(2048),
        wall: Duration::from_secs(wall),
        disk: Bytes::mib(512),
        processes: 512,
        ..limits()
    }
}

async fn in_browser(modules: &Path, files: &[(&str, &str)], selection: Selection, wall: u64) -> Ran {
    let folder = project(files);
    let session =
        session_with("karma", Path::new("/usr"), folder.path(), &selection, large(wall), |policy| {
            policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
        });
    Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() }
}

const KARMA: &str = "module.exports = (config) => config.set({ frameworks: ['jasmine'], files: ['src/*.js', 'spec/*.js'], browsers: ['Chrome'],
  plugins: ['karma-jasmine', 'karma-chrome-launcher'] });";
const CART: &str = "describe('cart', () => {
  it('adds', () => { expect(add(1, 2)).toBe(3); });
  it('draws', () => { const c = document.createElement('canvas').getContext('2d'); c.fillRect(0, 0, 2, 2); expect(c.getImageData(1, 1, 1, 1).data[3]).toBe(255); });
  it('lays out', () => { const d = document.createElement('div'); d.style.width = '50px'; document.body.append(d); expect(d.getBoundingClientRect().width).toBe(50); });
  it('is wrong', () => {
    expect(add(1, 2)).toBe(4);
  });
  xit('is left', () => {});
  it('is a Chrome', () => { expect(navigator.userAgent).toContain('Chrome/'); });
  it('finds no network', async () => { let out = 'reached'; try { await fetch('http://192.0.2.1/', { mode: 'no-cors' }); } catch { out = 'refused'; } expect(out).toBe('refused'); });
});
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karma_runs_in_a_real_chromium() {
    let Some(modules) = node::with_runners().filter(|_| with_chromium()) else { return };
    let add = ("src/add.js", "function add(a, b) { return a + b; }");
    let ran = in_browser(
        modules,
        &[("karma.conf.js", KARMA), add, ("spec/cart.js", CART)],
        Selection::default(),
        120,
    )
    .await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [5, 1, 0, 1, 0], "{}", ran.told());
    assert_eq!(ran.case("spec/cart.js::cart::is wrong").line, Some(6), "{}", ran.told());
    // A test that never returns is reported as the running one.
    let hangs = "it('a', () => {}); it('b', async () => { await new Promise((r) => setTimeout(r, 2000)); for (;;) {} }); it('c', () => {});";
    let ran =
        in_browser(modules, &[("karma.conf.js", KARMA), ("spec/a.js", hangs)], Selection::default(), 30)
            .await;
    assert_eq!(ran.report.verdict, Verdict::Limit, "{}", ran.told());
    assert_eq!(ran.case("::a").status, Status::Passed, "{}", ran.told());
    assert_eq!(ran.case("::b").status, Status::NotFinished, "{}", ran.told());
}

const PACKAGE: &str = "{\"scripts\":{\"test\":\"ng test\"},\"devDependencies\":{\"karma\":\"6\"}}";
const WORKSPACE: &str = "{\"version\":1,\"projects\":{\"shop\":{\"projectType\":\"application\",\"root\":\"\",\"sourceRoot\":\"src\",\"prefix\":\"app\",\"architect\":{
  \"build\":{\"builder\":\"@angular/build:application\",\"options\":{\"browser\":\"src/main.ts\",\"tsConfig\":\"tsconfig.json\"}},
  \"test\":{\"builder\":\"@angular/build:karma\",\"options\":{\"polyfills\":[\"zone.js\",\"zone.js/testing\"],\"tsConfig\":\"tsconfig.json\"}}}}}}";
const COMPILER: &str = "{\"compilerOptions\":{\"strict\":true,\"skipLibCheck\":true,\"importHelpers\":true,\"target\":\"ES2022\",\"module\":\"preserve\",\"types\":[\"jasmine\"],
  \"typeRoots\":[\"../node_modules/@types\"]},\"include\":[\"src/**/*.ts\"]}";
const COMPONENT: &str = "import { Component, signal } from '@angular/core';
@Component({ selector: 'app-cart', template: '<h1>{{ total() }} pieces</h1>' })
export class Cart { protected readonly total = signal(3); }
export function add(a: number, b: number): number { return a + b; }
";
const SPEC: &str = "import { TestBed } from '@angular/core/testing';
import { Cart, add } from './cart';
describe('Cart', () => {
  it('is drawn', async () => {
    await TestBed.configureTestingModule({ imports: [Cart] }).compileComponents();
    const made = TestBed.createComponent(Cart);
    made.detectChanges();
    expect(made.nativeElement.querySelector('h1').textContent).toBe('3 pieces');
  });
  it('is wrong', () => {
    expect(add(1, 2)).toBe(4);
  });
  xit('is left', () => {});
});
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn angulars_projects_are_tested_by_their_builder() {
    let Some(modules) = with_angular().filter(|_| with_chromium()) else { return };
    let add = "import { add } from './cart';\nit('adds', () => { expect(add(1, 2)).toBe(3); });\n";
    let files = [
        ("package.json", PACKAGE),
        ("angular.json", WORKSPACE),
        ("tsconfig.json", COMPILER),
        ("src/main.ts", ""),
        ("src/app/cart.ts", COMPONENT),
        ("src/app/cart.spec.ts", SPEC),
        ("src/app/add.spec.ts", add),
    ];
    let ran = in_browser(&modules, &files, Selection::default(), 180).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 1, 0, 1, 0], "{}", ran.told());
    let wrong = ran.case("src/app/cart.spec.ts::Cart::is wrong");
    assert_eq!(
        (wrong.file.as_deref(), wrong.line),
        (Some("src/app/cart.spec.ts"), Some(11)),
        "{}",
        ran.told()
    );
    for filter in ["src/app/add.spec.ts", "src/app/cart.spec.ts::Cart::is drawn", "adds"] {
        let ran = in_browser(&modules, &files, filtered(filter), 180).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{filter}: {}", ran.told());
    }
    // Code that does not compile, and a folder that is not a workspace.
    let mut broken = files;
    broken[6].1 = "import { add } from './cart';\nit('adds', () => { expect(add(1, '2')).toBe(3); });\n";
    let ran = in_browser(&modules, &broken, Selection::default(), 180).await;
    ran.assert(Verdict::Failed, true, true);
    let case = ran.case("src/app/add.spec.ts");
    assert_eq!((case.status, case.line), (Status::Errored, Some(2)), "{}", ran.told());
    // Angular would test one project after the other.
    let two = WORKSPACE.replace("\"projects\":{", "\"projects\":{\"lib\":{\"architect\":{\"test\":{}}},");
    broken[1].1 = &two;
    let ran = in_browser(&modules, &broken, Selection::default(), 180).await;
    ran.assert(Verdict::Failed, true, true);
    assert!(ran.told().contains("name one in the script"), "{}", ran.told());
    broken[1].1 = "{\"version\":1,\"projects\":{}}";
    let ran = in_browser(&modules, &broken, Selection::default(), 180).await;
    assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());
    ran.case("angular.json");
}
