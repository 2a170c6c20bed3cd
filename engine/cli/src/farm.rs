//! The farm that a command names, with the credentials for it.

use hotcell_config::{Configuration, FleetSettings};
use hotcell_egress::program::ValueSource;
use hotcell_fleet::{Access, Address, FleetError};
use hotcell_state::report::{Code, ErrorReport};

use crate::args::FarmArgs;
use crate::context::current_folder;

/// The word for the farm of the configuration.
pub const CONFIGURED: &str = "fleet";

/// The address that `option` has, with credentials: those of the options, else those of `[fleet]` if the server is the one there.
///
/// # Errors
/// [`ErrorReport`] with the option, when there is no such farm, or a token itself was given.
pub fn address(
    text: &str,
    option: &str,
    args: &FarmArgs,
    configuration: &Configuration,
) -> Result<Address, ErrorReport> {
    let fleet = &configuration.user.fleet;
    let wrong = |error: FleetError| ErrorReport::new(Code::InvalidValue, error.message).field(option);
    let named = text == CONFIGURED;
    let text = match (named, &fleet.address) {
        (false, _) => text,
        (true, Some(address)) => address,
        (true, None) => {
            let why = format!("{option} {CONFIGURED}: the configuration names no farm");
            return Err(ErrorReport::new(Code::Configuration, why)
                .field("fleet.address")
                .hint("write [fleet] with address = \"grpcs://HOST:PORT/INSTANCE\" into your configuration, or name the address here"));
        }
    };
    let mut address = Address::parse(text, args.plain_grpc).map_err(wrong);
    if fleet.plain && (named || address.is_err()) {
        // The permission of the configuration is for its own server.
        let plain = Address::parse(text, true).map_err(wrong)?;
        if named || configured(fleet).is_some_and(|own| own.is_same_server(&plain)) {
            address = Ok(plain);
        }
    }
    let address = address?;
    let own = named || configured(fleet).is_some_and(|own| own.is_same_server(&address));
    let own = if own { Access::from_settings(fleet) } else { Access::default() };
    let cwd = current_folder();
    let at = |path: &std::path::PathBuf| cwd.join(path);
    let token = args.farm_token.as_deref().map(str::parse::<ValueSource>).transpose();
    let token = token.map_err(|_| {
        let why = "it is env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH; a token itself is not accepted";
        ErrorReport::new(Code::InvalidValue, format!("--farm-token: {why}")).field("--farm-token")
    })?;
    let shown = args.farm_cert.is_some();
    address
        .with(Access {
            ca: args.farm_ca.as_ref().map(at).or(own.ca),
            certificate: if shown { args.farm_cert.as_ref().map(at) } else { own.certificate },
            key: if shown { args.farm_key.as_ref().map(at) } else { own.key },
            token: token.or(own.token),
        })
        .map_err(wrong)
}

/// The farm of the configuration, without credentials.
fn configured(fleet: &FleetSettings) -> Option<Address> {
    Address::parse(fleet.address.as_deref()?, true).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, fleet: &str, args: &FarmArgs) -> Result<Address, String> {
        let user = hotcell_config::Settings::parse(fleet, std::path::Path::new("/c.toml")).unwrap();
        let configuration = Configuration { user, ..Configuration::default() };
        address(text, "--remote", args, &configuration).map_err(|report| report.to_string())
    }

    #[test]
    fn credentials_of_the_configuration_go_to_its_own_server_only() {
        let fleet =
            "[fleet]\naddress = \"grpcs://farm.example:1/main\"\ntoken = \"env:T\"\nca = \"/ca.pem\"\n";
        let none = FarmArgs::default();
        for (text, is_own) in [
            ("fleet", true),
            ("grpcs://farm.example:1/other", true),
            ("grpcs://farm.example:2/main", false),
            ("grpcs://evil.example:1/main", false),
            ("grpc://127.0.0.1:1/main", false),
        ] {
            let is = of(text, fleet, &none).unwrap();
            assert_eq!(is.access.token.is_some() && is.access.ca.is_some(), is_own, "{text}");
            assert_eq!(is.access == Access::default(), !is_own, "{text}");
        }
        assert!(of("fleet", "", &none).unwrap_err().contains("names no farm"));
        let token = FarmArgs { farm_token: Some("s3cr3t".to_owned()), ..FarmArgs::default() };
        let error = of("grpcs://farm.example:1/main", "", &token).unwrap_err();
        assert!(error.contains("itself is not accepted") && !error.contains("s3cr3t"), "{error}");
        let token = FarmArgs { farm_token: Some("fd:9".to_owned()), ..FarmArgs::default() };
        let is = of("fleet", fleet, &token).unwrap();
        assert_eq!((is.access.token.unwrap().to_string(), is.access.ca.is_some()), ("fd:9".to_owned(), true));
    }

    #[test]
    fn permission_without_tls_is_for_the_server_of_the_configuration() {
        let fleet = "[fleet]\naddress = \"grpc://farm.example:1/main\"\nplain = true\n";
        let none = FarmArgs::default();
        for (text, good) in
            [("fleet", true), ("grpc://farm.example:1/x", true), ("grpc://other.example:1/x", false)]
        {
            assert_eq!(of(text, fleet, &none).is_ok(), good, "{text}");
        }
        let plain = FarmArgs { plain_grpc: true, ..FarmArgs::default() };
        assert!(of("grpc://other.example:1/x", "", &plain).is_ok());
    }
}
