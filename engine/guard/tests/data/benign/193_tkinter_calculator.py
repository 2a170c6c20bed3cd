import tkinter as tk

BUTTONS = [
    ("7", "8", "9", "/"),
    ("4", "5", "6", "*"),
    ("1", "2", "3", "-"),
    ("0", ".", "=", "+"),
    ("C", "(", ")", "<-"),
]


class Calculator(tk.Tk):
    def __init__(self):
        super().__init__()
        self.title("Calculator")
        self.resizable(False, False)
        self.expression = tk.StringVar()
        entry = tk.Entry(self, textvariable=self.expression, font=("Consolas", 20), justify="right", bd=8)
        entry.grid(row=0, column=0, columnspan=4, sticky="nsew")
        for r, row in enumerate(BUTTONS, 1):
            for c, label in enumerate(row):
                tk.Button(self, text=label, width=5, height=2, font=("Arial", 14),
                          command=lambda l=label: self.press(l)).grid(row=r, column=c, sticky="nsew")
        self.bind("<Return>", lambda e: self.press("="))
        self.bind("<Escape>", lambda e: self.press("C"))

    def press(self, label):
        text = self.expression.get()
        if label == "C":
            self.expression.set("")
        elif label == "<-":
            self.expression.set(text[:-1])
        elif label == "=":
            self.calculate(text)
        else:
            self.expression.set(text + label)

    def calculate(self, text):
        # only digits and operators may reach eval
        if not text or not set(text) <= set("0123456789.+-*/() "):
            self.expression.set("Error")
            return
        try:
            self.expression.set(str(eval(text, {"__builtins__": {}}, {})))
        except ZeroDivisionError:
            self.expression.set("Division by zero")
        except Exception:
            self.expression.set("Error")


if __name__ == "__main__":
    Calculator().mainloop()
