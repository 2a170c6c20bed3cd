//! Handles: unguessable texts that stand for the resources of one instance. A caller never sees the numbers
//! by which a component knows its resources. Pure but for the random numbers.

use std::collections::HashMap;

use crate::mapping::NO_HANDLE;

/// Random bytes of a handle.
const RANDOM_BYTES: usize = 16;

/// Handles of one instance.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    all: HashMap<String, Entry<T>>,
    /// Handles that the arguments of the current call have named, and whether the call uses them up.
    used: HashMap<String, bool>,
    /// Entries that the arguments of the current call have taken out.
    taken: Vec<(String, Entry<T>)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Number of the resource's type in the component.
    resource: usize,
    value: T,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), used: HashMap::new(), taken: Vec::new() }
    }
}

impl<T: Copy> Handles<T> {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Resolves a handle for the current call; `own` takes it out of the table.
    ///
    /// # Errors
    /// A sentence when it is not in the table, stands for another resource, or was named before in this call
    /// and one of both uses it up.
    pub(crate) fn resolve(&mut self, handle: &str, resource: Option<usize>, own: bool) -> Result<T, String> {
        if self.used.get(handle).is_some_and(|used_up| *used_up || own) {
            return Err("this handle is used up by this call, and is named twice in it".to_owned());
        }
        let entry = *self.all.get(handle).ok_or(NO_HANDLE)?;
        if resource.is_some_and(|wanted| wanted != entry.resource) {
            return Err("this handle stands for another resource".to_owned());
        }
        self.used.insert(handle.to_owned(), own);
        if own {
            self.taken.extend(self.all.remove_entry(handle));
        }
        Ok(entry.value)
    }

    /// The current call begins: what its arguments took out stays out.
    pub(crate) fn keep(&mut self) {
        self.used.clear();
        self.taken.clear();
    }

    /// The current call never began: what its arguments took out comes back.
    pub(crate) fn undo(&mut self) {
        self.used.clear();
        self.all.extend(self.taken.drain(..));
    }

    /// Adds a resource, and returns its handle.
    ///
    /// # Errors
    /// A sentence when the kernel gives no random numbers.
    pub(crate) fn add(&mut self, name: &str, resource: usize, value: T) -> Result<String, String> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|e| format!("the kernel gives no random numbers: {e}"))?;
        let digits: String = hex::encode(random);
        let handle = format!("{name}_{digits}");
        self.all.insert(handle.clone(), Entry { resource, value });
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a call's arguments: handle, wanted resource, whether it is used up, and the value or a part
    /// of the refusal.
    type Step<'a> = (&'a str, Option<usize>, bool, Result<u8, &'a str>);

    #[test]
    fn handle_use_must_match_its_type() {
        let mut handles = Handles::default();
        let a = handles.add("counter", 0, 1_u8).unwrap();
        let b = handles.add("timer", 1, 2).unwrap();
        assert!(a.starts_with("counter_") && a.len() == "counter_".len() + 2 * RANDOM_BYTES);
        let forged = format!("counter_{}", "0".repeat(2 * RANDOM_BYTES));
        let near = a.to_uppercase();
        let twice = Err("named twice");
        let (no, other) = (Err("no such handle"), Err("another resource"));
        // Each call's steps, whether the call then begins, and how many handles are left.
        let calls: &[(&[Step<'_>], bool, usize)] = &[
            (
                &[(&a, Some(0), false, Ok(1)), (&a, Some(0), false, Ok(1)), (&b, Some(1), false, Ok(2))],
                true,
                2,
            ),
            (&[(&forged, Some(0), false, no), (&near, Some(0), true, no), ("", None, true, no)], true, 2),
            (&[("1", Some(0), false, no), ("0", None, true, no)], true, 2),
            (&[(&a, Some(1), false, other), (&a, Some(1), true, other)], true, 2),
            // Refused arguments use nothing up.
            (&[(&a, Some(0), true, Ok(1)), (&a, Some(0), true, twice)], false, 2),
            (&[(&a, Some(0), true, Ok(1)), (&a, Some(0), false, twice)], false, 2),
            (&[(&a, Some(0), false, Ok(1)), (&a, Some(0), true, twice)], false, 2),
            (&[(&a, None, true, Ok(1)), (&b, Some(1), true, Ok(2)), (&forged, Some(0), true, no)], false, 2),
            (&[(&a, Some(0), true, Ok(1)), (&b, Some(1), false, Ok(2))], true, 1),
            (&[(&a, Some(0), false, no), (&a, None, true, no)], true, 1),
            (&[(&b, None, true, Ok(2))], true, 0),
        ];
        for (number, (steps, begins, left)) in calls.iter().enumerate() {
            for (handle, resource, own, wanted) in *steps {
                match (handles.resolve(handle, *resource, *own), wanted) {
                    (Ok(value), Ok(wanted)) => assert_eq!(value, *wanted, "call {number}"),
                    (Err(why), Err(part)) => assert!(why.contains(part), "call {number}: {why}"),
                    (got, _) => panic!("call {number}: {got:?}"),
                }
            }
            if *begins {
                handles.keep();
            } else {
                handles.undo();
            }
            assert_eq!(handles.len(), *left, "call {number}");
        }
    }

    #[test]
    fn handles_are_all_different() {
        let mut handles = Handles::default();
        let all: std::collections::HashSet<String> =
            (0..1_000).map(|_| handles.add("r", 0, ()).unwrap()).collect();
        assert_eq!((all.len(), handles.len()), (1_000, 1_000));
    }
}
