//! `hotcell mcp servers login`: tokens from a server's authorization server, sealed beside its entry.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_client::{ClientError, Endpoint, FormerLogin, Identity, Keeper, LoggedIn, Login, LoginRequest};
use hotcell_egress::sealed::{SealError, SealKey};
use hotcell_egress::secret::{SecretError, SecretSource};
use hotcell_state::report::{Code, ErrorReport, printable};

use super::entry::SealedToken;
use super::servers;
use crate::args::{Common, LoginArgs};
use crate::context::{configuration, runtime, state};
use crate::exit::{self, printed};
use crate::signals::interrupted;
use crate::terminal::notes;

/// Tokens of a login, beside the entry.
const LOGIN: &str = "login.json";
/// File that is locked while they are renewed.
const LOCK: &str = "login.lock";

/// The files of one login.
struct Files {
    folder: PathBuf,
    key: String,
}

impl Keeper for Files {
    fn load(&self) -> io::Result<String> {
        let kept: Option<SealedToken> = servers::read(&self.folder.join(LOGIN))?;
        kept.map(|kept| kept.text).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn save(&self, sealed: &str) -> io::Result<()> {
        let kept = SealedToken { key: self.key.clone(), text: sealed.to_owned() };
        servers::write(&self.folder.join(LOGIN), &kept)
    }

    fn lock(&self) -> io::Result<Box<dyn Send>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.folder.join(LOCK))?;
        file.lock()?;
        Ok(Box::new(file))
    }
}

/// An endpoint with the tokens of the login that is kept in a server's folder, if there is one.
///
/// # Errors
/// A sentence, when the file or the source of its key cannot be read.
pub fn of(folder: &Path, name: &str, endpoint: &Endpoint) -> Result<Option<Endpoint>, String> {
    let kept: Option<SealedToken> =
        servers::read(&folder.join(LOGIN)).map_err(|e| format!("its login: {e}"))?;
    let Some(kept) = kept else { return Ok(None) };
    let key: SecretSource =
        kept.key.parse().map_err(|e: SecretError| format!("the key of its login: {e}"))?;
    let files = Files { folder: folder.to_owned(), key: kept.key };
    let login = LoggedIn::new(key, endpoint.purpose(&format!("login of {name}")), Arc::new(files));
    Ok(Some(endpoint.clone().logged_in(Arc::new(login))))
}

/// Forgets the login of a server's folder; whether there was one.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget(folder: &Path) -> io::Result<bool> {
    match fs::remove_file(folder.join(LOGIN)) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Reads the options of a request.
///
/// # Errors
/// [`ErrorReport`] with the option that cannot be used.
fn request(args: &LoginArgs, former: Option<FormerLogin>) -> Result<LoginRequest, ErrorReport> {
    let bad = |option: &str, why: String| ErrorReport::new(Code::InvalidValue, why).field(option);
    let secret = args.client_secret.as_deref().map(|source| {
        source
            .parse::<SecretSource>()
            .and_then(|source| source.read())
            .map_err(|e| bad("--client-secret", e.to_string()))
    });
    let identity = match &args.client {
        Some(id) => Identity::of(id, secret.transpose()?).map_err(|why| bad("--client", why))?,
        None => Identity::New,
    };
    let mut scopes = Vec::new();
    for list in &args.right {
        let more = hotcell_client::scopes(list).ok_or_else(|| {
            bad(
                "--right",
                format!("{} has characters that scopes do not have (RFC 6749, 3.3)", printable(list)),
            )
        })?;
        scopes.extend(more.into_iter().map(str::to_owned));
    }
    Ok(LoginRequest { identity, issuer: args.issuer.clone(), scopes, former, port: args.port })
}

/// Runs the command; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when the server is not one at an address, the key cannot be used, or the login fails.
pub fn login(common: &Common, args: &LoginArgs) -> Result<u8, ErrorReport> {
    if common.json {
        let why =
            "a login asks a person, and has no JSON form: the address is the only line of standard output";
        return Err(ErrorReport::new(Code::Usage, why).field("--json"));
    }
    let choice = state(common, &configuration(common, None)?);
    let folder = servers::startable(&choice, &args.name)?;
    let bad = |why: String| ErrorReport::new(Code::State, format!("{}: {why}", args.name)).field("NAME");
    let entry = servers::entry_of(&folder).map_err(|e| bad(e.to_string()))?.unwrap_or_default();
    let Some(url) = &entry.url else {
        return Err(bad("it is a command, and a login is for a server at an address".to_owned()));
    };
    if entry.token.is_some() || entry.sealed.is_some() {
        let why = "it has a token already".to_owned();
        return Err(bad(why).hint(format!(
            "hotcell mcp servers add {} --url {} --replace adds it without",
            args.name,
            printable(url)
        )));
    }
    let of_key = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--seal");
    let key: SecretSource = args.seal.parse().map_err(|e: SecretError| of_key(e.to_string()))?;
    if matches!(key, SecretSource::Fd(_)) {
        let why = "the key is read at each start: use env:NAME, file:/PATH or keyring:NAME";
        return Err(of_key(why.to_owned()));
    }
    // Before the user is sent to a browser.
    let read = key.read().map_err(|e| of_key(e.to_string()))?;
    SealKey::new(&read).map_err(|e: SealError| of_key(e.to_string()))?;
    let endpoint = Endpoint::new(url).map_err(|e| bad(e.to_string()))?;
    let files = Files { folder: folder.clone(), key: args.seal.clone() };
    let kept = LoggedIn::new(key, endpoint.purpose(&format!("login of {}", args.name)), Arc::new(files));
    let request = request(args, kept.former())?;
    let failed = |e: ClientError| ErrorReport::new(Code::Refused, format!("{}: {e}", args.name));
    let runtime = runtime().map_err(|e| ErrorReport::new(Code::Internal, format!("the runtime: {e}")))?;
    runtime.block_on(async {
        let login = tokio::select! {
            login = Login::begin(&endpoint, &request) => login.map_err(failed)?,
            () = interrupted() => return Ok(exit::INTERRUPTED),
        };
        if !common.quiet {
            let issuer = printable(login.issuer());
            notes::say(format!("open this address in a browser, to log in at {issuer}; hotcell waits {} s", args.timeout.as_secs()));
        }
        // The only line of standard output, for scripts.
        let done = printed(exit::print_text(&format!("{}\n", printable(login.address()))), 0);
        if done != 0 {
            return Ok(done);
        }
        let tokens = tokio::select! {
            tokens = tokio::time::timeout(args.timeout, login.finish()) => match tokens {
                Ok(tokens) => tokens.map_err(failed)?,
                Err(_) => return Err(ErrorReport::new(Code::Refused, format!("{}: the browser did not come back in time", args.name)).field("--timeout")),
            },
            () = interrupted() => return Ok(exit::INTERRUPTED),
        };
        kept.keep(&tokens).map_err(failed)?;
        if !common.quiet {
            notes::say(format!("{} is logged in; its tokens are sealed with the key at {}", args.name, printable(&args.seal)));
        }
        Ok(0)
    })
}
