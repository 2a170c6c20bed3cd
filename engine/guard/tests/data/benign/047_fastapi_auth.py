import os
from datetime import datetime, timedelta, timezone

import jwt
from fastapi import Depends, FastAPI, HTTPException, status
from fastapi.security import OAuth2PasswordBearer, OAuth2PasswordRequestForm
from passlib.context import CryptContext
from pydantic import BaseModel

SECRET_KEY = os.environ.get("SECRET_KEY", "change-me-in-production")
ALGORITHM = "HS256"
EXPIRE_MINUTES = 30

app = FastAPI(title="Auth demo")
pwd = CryptContext(schemes=["bcrypt"], deprecated="auto")
oauth2 = OAuth2PasswordBearer(tokenUrl="token")
users: dict[str, str] = {}


class Registration(BaseModel):
    username: str
    password: str


class Token(BaseModel):
    access_token: str
    token_type: str = "bearer"


def create_token(sub: str) -> str:
    exp = datetime.now(timezone.utc) + timedelta(minutes=EXPIRE_MINUTES)
    return jwt.encode({"sub": sub, "exp": exp}, SECRET_KEY, algorithm=ALGORITHM)


def current_user(token: str = Depends(oauth2)) -> str:
    try:
        payload = jwt.decode(token, SECRET_KEY, algorithms=[ALGORITHM])
    except jwt.PyJWTError:
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "invalid token", headers={"WWW-Authenticate": "Bearer"})
    username = payload.get("sub")
    if username not in users:
        raise HTTPException(status.HTTP_401_UNAUTHORIZED, "unknown user")
    return username


@app.post("/register", status_code=201)
def register(body: Registration):
    if body.username in users:
        raise HTTPException(409, "user exists")
    users[body.username] = pwd.hash(body.password)
    return {"username": body.username}


@app.post("/token", response_model=Token)
def login(form: OAuth2PasswordRequestForm = Depends()):
    hashed = users.get(form.username)
    if not hashed or not pwd.verify(form.password, hashed):
        raise HTTPException(400, "incorrect username or password")
    return Token(access_token=create_token(form.username))


@app.get("/me")
def me(user: str = Depends(current_user)):
    return {"username": user}
