//! The page of hotcell in a browser: what waits for a person's decision, what ran, tools and servers, layers, usage.
//!
//! ```no_run
//! # async fn example(sources: hotcell_web::Sources) -> Result<(), hotcell_web::WebError> {
//! let listening = hotcell_web::Listening::bind(0)?;
//! let site = hotcell_web::Site::new(sources, listening.port())?;
//! println!("decide: {}", site.link(hotcell_web::Role::Decider)?);
//! listening.serve(site, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
//!
//! The server listens on loopback and answers to one random name below `.localhost` only. Everything is read from the
//! state folder for each page, so that it stands beside any other hotcell of that folder.
//!
//! | module | idea |
//! | --- | --- |
//! | [`admit`] | decisions on a request's head: host, origin, fetch metadata, session; pure |
//! | [`sessions`] | links that work once, and the sessions that they begin |
//! | [`seal`] | tokens that are bound to a session and to what was shown |
//! | [`say`] | untrusted text as HTML |
//! | [`team`] | team mode: persons that a proxy names |
//! | [`text`] | long texts in parts, each with the place where the next one begins |
//! | `subject` | what waits: what would be allowed, for whom, and its whole text |
//! | `form` | fields of queries and of posted forms |
//! | `frame` | the frame of every page |
//! | `chart` | bars as SVG |
//! | [`site`] | the sources of the pages, and the state of the server |
//! | `pages` | the pages |
//! | [`server`] | routes, checks before them, listening |
//! | `live` | events for open pages |

#![forbid(unsafe_code)]

pub mod admit;
mod chart;
mod form;
mod frame;
mod live;
mod pages;
pub mod say;
pub mod seal;
pub mod server;
pub mod sessions;
pub mod site;
mod subject;
pub mod team;
pub mod text;

pub use server::{Listening, WebError, serve_team};
pub use sessions::Role;
pub use site::{Attacks, Site, Sources, SuggestionDecision, WrappedServer};
pub use team::Team;
