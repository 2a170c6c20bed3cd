//! Everything that the contract promises of the command line, tried through the binary.

mod bad_input;
mod compiled;
mod configuration;
mod coverage;
mod deps;
mod endings;
mod guard;
mod history;
mod image_build;
mod images;
mod interface;
mod languages;
mod mcp;
mod mcp_attacks;
mod mcp_bounds;
mod mcp_ends;
mod monorepo;
mod network;
mod projects;
mod quarantine;
mod streams;
mod surroundings;
mod testing;
mod tools;
mod weak;
mod workspace;
