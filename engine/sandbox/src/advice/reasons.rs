//! Reasons that the doctor gives for a layer that is not available.

/// Beginning of the reason for a layer that the kernel accepted but a canary got through.
pub const DOES_NOT_HOLD: &str = "was set up and does not hold";
/// Beginning of the reason for a layer about which nothing is known.
pub const NOT_TRIED: &str = "not tried";
/// Reason for a missing namespace that depends on a user namespace.
pub const SEE_USER_NS: &str = "it needs user_ns";
/// Reason for a missing root where there is no `/proc` of its own.
pub const SEE_PID_NS: &str = "its root has a /proc of its own, which needs pid_ns";
/// Reason why own process numbers are useless without an own root.
pub const SEE_MOUNT_NS: &str = "only a /proc in its own root shows it, which needs mount_ns";
/// Beginning of the reason for a layer that can only be tested in a sandbox, where none can be made.
pub const NO_SANDBOX: &str = "no sandbox can be made to try it in";
