//! Contents of a component: its tools, their documentation, and what the files beside it say.
//!
//! | module | idea |
//! | --- | --- |
//! | [`mod@describe`] | the tools of a component and their schemas |
//! | [`docs`], [`sections`] | documentation in the component, and the sections that hold it |
//! | [`inspect`] | bytes of a component before anything is compiled |
//! | [`serves`] | resources that a plugin serves |

pub mod describe;
pub mod docs;
pub mod inspect;
pub mod sections;
pub mod serves;
