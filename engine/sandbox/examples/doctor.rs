//! Reports which layers this host can enforce; with `--json` as one JSON object.

use hotcell_sandbox::{Confinement, Engine, Layer, Shape, doctor};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (mut strict, mut only) = (Shape::default(), Shape::default());
    strict.require.extend(Layer::ALL);
    only.confinement = Confinement::LandlockOnly;
    let profiles = [
        ("standard".to_owned(), Shape::default()),
        ("everything".to_owned(), strict),
        ("landlock-only".to_owned(), only),
    ];
    let report = doctor::examine(&Engine::new(), &profiles).await;
    if std::env::args().any(|a| a == "--json") {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(e) => eprintln!("{e}"),
        }
    } else {
        print!("{}", doctor::render(&report, false));
    }
}
