import pytest


class InsufficientFunds(Exception):
    pass


class BankAccount:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount

    def withdraw(self, amount):
        if amount > self.balance:
            raise InsufficientFunds(f"need {amount - self.balance} more")
        self.balance -= amount

    def transfer(self, other, amount):
        self.withdraw(amount)
        other.deposit(amount)


@pytest.fixture
def account():
    return BankAccount("alice", 100)


@pytest.fixture
def other():
    return BankAccount("bob", 10)


def test_deposit(account):
    account.deposit(50)
    assert account.balance == 150


@pytest.mark.parametrize("amount", [0, -1, -100])
def test_deposit_rejects_non_positive(account, amount):
    with pytest.raises(ValueError):
        account.deposit(amount)


def test_withdraw_too_much(account):
    with pytest.raises(InsufficientFunds, match="need 50 more"):
        account.withdraw(150)
    assert account.balance == 100


@pytest.mark.parametrize("amount,left,right", [(10, 90, 20), (100, 0, 110)])
def test_transfer(account, other, amount, left, right):
    account.transfer(other, amount)
    assert (account.balance, other.balance) == (left, right)
