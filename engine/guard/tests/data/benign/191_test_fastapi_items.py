import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool

from app.database import Base, get_db
from app.main import app

engine = create_engine("sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool)
TestingSession = sessionmaker(bind=engine)


@pytest.fixture(autouse=True)
def database():
    Base.metadata.create_all(engine)
    yield
    Base.metadata.drop_all(engine)


@pytest.fixture
def client():
    def override():
        db = TestingSession()
        try:
            yield db
        finally:
            db.close()

    app.dependency_overrides[get_db] = override
    with TestClient(app) as c:
        yield c
    app.dependency_overrides.clear()


@pytest.fixture
def item(client):
    return client.post("/items", json={"name": "lamp", "price": 19.5}).json()


def test_create(client):
    r = client.post("/items", json={"name": "chair", "price": 40})
    assert r.status_code == 201
    assert r.json()["name"] == "chair"


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x", "price": -1}, {"name": "x", "price": "free"}])
def test_create_invalid(client, body):
    assert client.post("/items", json=body).status_code == 422


def test_get_and_delete(client, item):
    url = f"/items/{item['id']}"
    assert client.get(url).json() == item
    assert client.delete(url).status_code == 204
    assert client.get(url).status_code == 404


def test_pagination(client):
    for i in range(15):
        client.post("/items", json={"name": f"item {i}", "price": i})
    page = client.get("/items", params={"offset": 10, "limit": 10}).json()
    assert [i["name"] for i in page] == [f"item {i}" for i in range(10, 15)]
