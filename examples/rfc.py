"""The examples of the RFC as one program: a tax service that is registered, called and written to.

Root and key come from $SPEED_ROOT and $SPEED_KEY. The same in C++ and Java: bindings/cpp/examples/rfc.cpp and
bindings/java/src/main/java/speed/examples/Rfc.java. Run: python examples/rfc.py
"""

from __future__ import annotations

import speed


class TaxService:
    def invoke(self, request: speed.Request) -> dict[str, float]:
        amount = request.arguments["amount"]
        return {"tax": amount * 0.18}


def main() -> None:
    with speed.Node("billing") as billing, speed.Node("analytics") as analytics:
        billing.register("calculateTax", TaxService(), allow=["analytics"])
        billing.on_message(lambda message: print(message.source, message.payload))
        billing.allow("analytics")

        answer = analytics.call("billing", "calculateTax", {"amount": 1000})
        print("tax", answer["tax"])
        analytics.send("billing", "hello", ack=True)
        try:
            analytics.call("billing", "generateInvoice")
        except speed.ServiceNotFoundError as error:
            print(error.code)


if __name__ == "__main__":
    main()
