//! Files and paths.

use super::{
    CAPS, FILES, FILTER_ONLY, FIRST_NS, KERNEL, LANDLOCK, MOUNT, NOT_ROOT_INSIDE, Row, SECCOMP, SECRET, Set,
    USER, Users, a, c,
};

pub(super) const ROWS: &[Row] = &[
    a(1, "read_denied_file", c("read_denied", SECRET), FILES),
    a(1, "read_private_file", c("read_denied", &["secret={private}"]), FILES).other_id(),
    a(2, "read_through_symlinks", c("read_by_symlink", SECRET), FILES),
    a(3, "hard_link_out", c("hard_link", SECRET), FILES),
    a(4, "rename_out_and_over", c("rename", SECRET), FILES),
    a(5, "truncate", c("truncate", SECRET), FILES),
    a(6, "unlink", c("unlink", SECRET), FILES),
    a(7, "every_open_call", c("open_variants", SECRET), FILES),
    a(8, "spellings_of_a_path", c("spellings", SECRET), FILES),
    a(9, "through_proc_roots", c("through_proc", SECRET), &[MOUNT, LANDLOCK]),
    Row::works(11, "odd_names", c("odd_names", &[])),
    a(13, "make_device", c("make_device", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(14, "open_by_handle", c("open_by_handle", &[]), &[SECCOMP, CAPS])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(18, "no_follow_and_trailing_slash", c("no_follow", SECRET), FILES),
    a(19, "change_attributes_of_read_only", c("change_attributes", SECRET), &[MOUNT])
        .single("Landlock has no right for attributes; an own file's mode is its owner's"),
    a(20, "inotify_on_host_tree", c("inotify", SECRET), &[MOUNT])
        .single("Landlock has no right for watching"),
    a(20, "fanotify", c("fanotify", &[]), &[SECCOMP]).single(FILTER_ONLY),
    Row::works(25, "sparse_terabyte_is_collected", c("sparse_file", &[])),
    a(26, "many_files", c("many_files", &["files=1000"]), &[MOUNT])
        .single("the kernel counts files per file system only; the supervisor looks at the outcome")
        .set(&[Set::Files(1000)])
        .stopped_by(&["file_limit"])
        .bare("without its own mounts the sandbox has no scratch to count")
        .open(Users::Both, "without namespaces its scratch is a folder of the host, and nothing counts what is written there"),
    Row::works(27, "ten_thousand_folders_deep", c("deep_nesting", &["folders={deep}"])).set(&[Set::WallSeconds(150)]),
    a(28, "fill_disk", c("fill_disk", &["disk_mib=16"]), &[MOUNT])
        .single("space is counted per file system only; memory is the next limit on a tmpfs")
        .set(&[Set::DiskMib(16)])
        .stopped_by(&["disk_limit"])
        .bare("without its own mounts the sandbox has no scratch to fill")
        .open(Users::Both, "without namespaces its scratch is a folder of the host, and nothing counts what is written there"),
    Row::works(30, "written_program_runs", c("written_program_runs", &[])),
];
