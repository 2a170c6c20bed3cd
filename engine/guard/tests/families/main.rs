//! Families of generated inputs: each is one idea in many forms, and all forms get the verdict of the idea.

mod access;
mod check;
mod copied;
mod destroy;
mod engines;
mod granted;
mod handed;
mod noise;
mod pickles;
mod remote;
