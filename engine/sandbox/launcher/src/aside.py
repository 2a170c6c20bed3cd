# Behind primer.py: what is there before the job is set aside, where that cannot be noticed.
# What is made of these types alone goes without anybody noticing.
PLAIN = [type(None), bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, object, type, property, classmethod,
         staticmethod, super, slice, range, type(sys), type(sys.flags), type(sys.implementation), type(len), type(check),
         type(check.__code__), type(sys.meta_path[0].find_spec), type(dict.get), type(object.__init__), type(object().__str__),
         type(type.__dict__["__mro__"]), type(type.__dict__["__module__"]), type(type.__dict__), type(dict.__dict__["fromkeys"]),
         type(os.PathLike), type(os.PathLike._abc_impl), type(sys._getframe())]
PLAIN += [kind for kind in vars(sys.modules["builtins"]).values() if type(kind) is type and issubclass(kind, BaseException)]
try:
    raise ValueError
except ValueError as e:
    PLAIN.append(type(e.__traceback__))
# The same of modules in C; who loads another one has types that nobody here knows.
NAMED = {"enum": "EnumMeta EnumType Enum", "_thread": "lock RLock", "_collections": "deque OrderedDict defaultdict _tuplegetter",
         "_functools": "partial _lru_cache_wrapper", "re": "Pattern Match", "_sre": "", "_operator": "itemgetter attrgetter methodcaller",
         "itertools": "count cycle repeat chain", "_struct": "Struct", "_datetime": "", "datetime": "date datetime time timedelta timezone tzinfo",
         "_random": "Random", "math": "", "_json": "Scanner Encoder", "_string": "", "_heapq": "", "_bisect": "", "_opcode": "", "atexit": "",
         "errno": "", "_locale": "", "_typing": "", "_stat": "", "_posixsubprocess": "", "select": "poll", "_elementtree": "Element", "pyexpat": "",
         "fcntl": "", "zlib": "", "_bz2": "", "_lzma": "", "_sha1": "", "_sha2": "", "_sha256": "", "_sha512": "", "_sha3": "", "_md5": "",
         "_blake2": "", "_hashlib": "", "_csv": "", "_pickle": "", "_decimal": "", "_statistics": "", "binascii": "", "unicodedata": "", "grp": "",
         "pwd": "", "_tokenize": "", "_ast": "AST", "readline": "", "_contextvars": "ContextVar"}


def freeze():
    # What is there now is no garbage, and looking through it was half of a short program's end: it is set aside. Whoever imports gc finds
    # it where it would be; the library takes it back then. What is set aside can keep something else from being looked at, so it is
    # taken back at the end too, unless nothing is there that would do anything, or tell anybody, when it goes. The library asks that only
    # where nobody traces, profiles or audits, so that nobody sees it asked; here nothing of the program's may be called.
    # Whoever has gc already may use it on what is set aside; of what test runners do with it nothing is changed by that.
    runner = bool(names) and all(name.rstrip("?").split(".")[0] in ("pytest", "_pytest", "faulthandler", "pdb", "unittest") for name in names)
    if had_gc or "gc" in sys.modules and not runner or sys.version_info < (3, 10):
        return None
    import gc
    unfreeze, freeze, objects, count, stats = gc.unfreeze, gc.freeze, gc.get_objects, gc.get_count, gc.get_stats
    loaded, finalizing, module = sys.modules, sys.is_finalizing, type(sys)
    del loaded["gc"]
    # By identity, and by the interpreter's own means: a class can have any idea of what it is, and would notice that it was asked.
    dict_of, bases_of, flags_of, name_of = (
        type.__dict__[name].__get__ for name in ("__dict__", "__bases__", "__flags__", "__name__"))
    names_of, attribute = module.__dict__["__dict__"].__get__, object.__getattribute__
    reference, builtin, function = loaded["_weakref"].ref, type(len), type(check)
    callback_of = reference.__dict__["__callback__"].__get__
    spec = type(sys.__spec__)
    plain = {id(kind) for kind in PLAIN}
    known = dict.fromkeys(plain, True)
    known[id(reference)] = True
    exact = {id(io.StringIO), id(io.BytesIO)}
    text, buffers = io.TextIOWrapper, {io.BufferedReader, io.BufferedWriter}
    buffer_of = text.__dict__["buffer"].__get__

    def is_plain(kind):
        found = known.get(id(kind))
        if found is None:
            # A class of Python's own, which the interpreter takes apart itself, made of nothing but such.
            own, bases, is_made = dict_of(kind), bases_of(kind), flags_of(kind) & 1 << 9
            made = is_made and ("__weakref__" in own or "__slots__" in own or any(id(base) not in plain for base in bases))
            found = known[id(kind)] = (made and "__del__" not in own and all(map(is_plain, bases))
                                       or not is_made and name_of(kind) == "builtin_method")
        return found

    def is_known_module(name, value):
        if type(value) is not module:
            return False
        if name in NAMED or name == "__main__":
            return True
        its = names_of(value).get("__spec__")
        origin = attribute(its, "origin") if type(its) is spec else None
        # Older than any import, or made by hand, it has nowhere to come from.
        return type(origin) is str and origin.endswith((".py", ".pyc", "frozen"))

    def noticed():
        # One that was ended earlier than its interpreter; one with too much to look through. The interpreter has just collected once, and
        # test runners collect themselves.
        if not finalizing() or count()[2] > 2 or not runner and stats()[2]["collections"] > full + 1:
            return True
        for name, value in before.items():
            if loaded.get(name) is not value:
                return True
        for name, value in loaded.items():
            if type(name) is not str or name not in before and not is_known_module(name, value):
                return True
        of = {name: names_of(loaded[name]) for name in (*NAMED, "logging", "_weakrefset") if type(loaded.get(name)) is module}
        for name, kinds in NAMED.items():
            for kind in kinds.split() if name in of else ():
                known[id(of[name].get(kind))] = True
        codes = []
        forget = of.get("logging", {}).get("_removeHandlerRef")
        if type(forget) is function:
            codes.append(forget.__code__)
        weak_set = of.get("_weakrefset", {}).get("WeakSet")
        begin = dict_of(weak_set).get("__init__") if type(weak_set) is type else None
        if type(begin) is function:
            codes += begin.__code__.co_consts
        streams = set()
        for name in ("__stdin__", "__stdout__", "__stderr__"):
            stream = names_of(sys).get(name)
            if type(stream) is text:
                buffer = buffer_of(stream)
                streams.update((id(stream), id(buffer)))
                if type(buffer) in buffers:
                    streams.add(id(buffer.raw))
        for number, thing in enumerate(objects()):
            kind = type(thing)
            if number > 50_000:
                return True
            if issubclass(kind, reference) and is_plain(kind):
                told = callback_of(thing)
                # The registries of abstract classes have one of their own, and so have weak sets and logging.
                if told is not None and not (type(told) is builtin and told.__name__ == "_destroy") and not (
                        type(told) is function and told.__code__ in codes):
                    return True
            elif not (is_plain(kind) or id(kind) in exact or id(thing) in streams):
                return True
            elif issubclass(kind, type) and not is_plain(thing):
                # Not each of its objects need be among these.
                return True
        return False

    known[id(type(noticed.__closure__[0]))] = True
    plain.add(id(type(noticed.__closure__[0])))
    # Among the first that go when an interpreter ends is what it would call before a prompt, and with it what that holds: where nobody else
    # has it (site.py has, from Python 3.13 on), there is a place.
    hook = getattr(sys, "__interactivehook__", None)
    if type(hook) is not function or sys.getrefcount(hook) != 3:
        return None
    before = dict(loaded)
    full = stats()[2]["collections"]
    tools = getattr(getattr(sys, "monitoring", None), "get_tool", None)
    return noticed, unfreeze, freeze, hook, sys.gettrace, sys.getprofile, tools
