import sqlite3


class Field:
    sql_type = "TEXT"

    def __init__(self, required=True, default=None):
        self.required, self.default = required, default

    def __set_name__(self, owner, name):
        self.name = name
        owner.__dict__.get("_fields", {})

    def __get__(self, obj, objtype=None):
        if obj is None:
            return self
        return obj.__dict__.get(self.name, self.default)

    def __set__(self, obj, value):
        if value is None and self.required:
            raise ValueError(f"{self.name} is required")
        if value is not None:
            value = self.validate(value)
        obj.__dict__[self.name] = value

    def validate(self, value):
        return value


class String(Field):
    def __init__(self, max_length=255, **kw):
        super().__init__(**kw)
        self.max_length = max_length

    def validate(self, value):
        if not isinstance(value, str) or len(value) > self.max_length:
            raise ValueError(f"{self.name} must be a string of at most {self.max_length} characters")
        return value


class Integer(Field):
    sql_type = "INTEGER"

    def __init__(self, minimum=None, **kw):
        super().__init__(**kw)
        self.minimum = minimum

    def validate(self, value):
        value = int(value)
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"{self.name} must be >= {self.minimum}")
        return value


class Model:
    def __init_subclass__(cls):
        cls._fields = {k: v for k, v in vars(cls).items() if isinstance(v, Field)}
        cls._table = cls.__name__.lower() + "s"

    def __init__(self, **kwargs):
        unknown = kwargs.keys() - self._fields.keys()
        if unknown:
            raise TypeError(f"unknown fields {unknown}")
        self.id = None
        for name, f in self._fields.items():
            setattr(self, name, kwargs.get(name, f.default))

    @classmethod
    def create_table(cls, db):
        cols = ", ".join(f"{n} {f.sql_type}{' NOT NULL' if f.required else ''}" for n, f in cls._fields.items())
        db.execute(f"DROP TABLE IF EXISTS {cls._table}")
        db.execute(f"CREATE TABLE {cls._table} (id INTEGER PRIMARY KEY, {cols})")

    def save(self, db):
        names = list(self._fields)
        marks = ", ".join("?" * len(names))
        cur = db.execute(f"INSERT INTO {self._table} ({', '.join(names)}) VALUES ({marks})", [getattr(self, n) for n in names])
        self.id = cur.lastrowid
        return self


class Person(Model):
    name = String(max_length=40)
    age = Integer(minimum=0)
    city = String(required=False)


if __name__ == "__main__":
    db = sqlite3.connect(":memory:")
    Person.create_table(db)
    print(Person(name="Sam", age="33").save(db).id)
    try:
        Person(name="Sam", age=-1)
    except ValueError as e:
        print("error:", e)
