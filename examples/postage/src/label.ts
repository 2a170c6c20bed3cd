export interface Address {
  name: string;
  street: string;
  town: string;
  country?: string;
}

/** The lines of a label; the country only where it is another. */
export function label(to: Address, home = 'PT'): string[] {
  const lines = [to.name, to.street, to.town];
  return to.country && to.country !== home ? [...lines, to.country] : lines;
}
